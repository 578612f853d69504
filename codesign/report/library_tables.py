"""What there is to choose from: technologies, spaces, models, metrics, plug-ins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from codesign.base.metrics import Metric
from codesign.base.schema import Record
from codesign.base.units import parse_unit
from codesign.report.labels import format_setting, format_value, unit_text
from codesign.report.tables import pairs_table, plain_table, spaced, text_line
from codesign.space.pool_records import LINK_PARAMETERS
from codesign.space.pools import MACHINES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codesign.models.memtech import MemoryTechnology
    from codesign.space import DesignSpace
    from codesign.space.parameters import Parameter
    from codesign.space.pools import LinkEnds, Pool

_TECHNOLOGY_COLUMNS = {
    "capacity": "GB",
    "bandwidth": "GB/s",
    "latency": "ns",
    "shoreline": "mm",
    "background_power": "mW/GB",
    "read_energy": "pJ/bit",
    "write_energy": "pJ/bit",
}
"""The units in which technologies are compared, those of MemExplorer's Table 1."""
_ACCOUNT_UNITS = {"price": "USD/GB", "interface_area": "mm^2", "embodied_carbon": "g/GB"}
"""What costs and area need of a technology, where its file states it."""
_SHORT = {
    "shoreline": "edge",
    "background_power": "idle",
    "read_energy": "read",
    "write_energy": "write",
}
_MOST_VALUES = 12


def technologies_table(library: Mapping[str, MemoryTechnology]) -> Table:
    """One line per technology, typical values per unit."""
    headers = {
        name: f"{_SHORT.get(name, name)} {unit}" for name, unit in _TECHNOLOGY_COLUMNS.items()
    }
    columns = ["name", "one", *headers.values()]
    table = plain_table("Memory technologies: typical values of one", columns, headers.values())
    for name, technology in library.items():
        cells = [
            _in_unit(getattr(technology, attribute).typical, unit)
            for attribute, unit in _TECHNOLOGY_COLUMNS.items()
        ]
        table.add_row(name, technology.unit, *cells)
    return table


def technology_tables(technology: MemoryTechnology) -> list[RenderableType]:
    """One technology in full: the published range of every number and where it was read."""
    table = plain_table(
        f"{technology.name} ({technology.place}, of one {technology.unit})",
        ["", "low", "typical", "high", "unit", "source"],
        ["low", "typical", "high"],
    )
    for name, unit in (_TECHNOLOGY_COLUMNS | _ACCOUNT_UNITS).items():
        values = getattr(technology, name)
        if values is None:
            continue
        levels = [_in_unit(values.value_at(level), unit) for level in ("low", "typical", "high")]
        table.add_row(name.replace("_", " "), *levels, unit, technology.sources.get(name, "–"))
    parts: list[RenderableType] = [table]
    if technology.place == "off-chip":
        parts.append(text_line(_edge_text(technology)))
    return parts + ([text_line(technology.note.strip())] if technology.note.strip() else [])


def _edge_text(technology: MemoryTechnology) -> str:
    if not technology.shoreline.high:
        return "It takes no die edge."
    text = "Its shoreline is charged to the die edge reserved for memory"
    if not technology.family:
        return f"{text}."
    return f"{text}, except in spaces with uncharged_edge: {technology.family}."


def _in_unit(value: float, unit: str) -> str:
    return format_value(value / parse_unit(unit).scale) if value else "–"


def spaces_table(spaces: Mapping[str, DesignSpace]) -> Table:
    """One line per design space."""
    rows = ((name, size_text(item), item.description.strip()) for name, item in spaces.items())
    return plain_table("Design spaces", ["name", "designs", "description"], ["designs"], rows)


def size_text(space: DesignSpace) -> str:
    """The number of feasible designs."""
    return f"{space.size:,}"


def space_document(space: DesignSpace) -> dict[str, Any]:
    """A design space as one document."""
    return {
        "name": space.name,
        "source": space.source,
        "description": space.description,
        "size": space.size,
        "parameters": [_parameter_document(parameter) for parameter in space.parameters],
        "components": [
            {"parameters": component.names, "size": component.size}
            for component in space.components
        ],
        "constraints": [constraint.text for constraint in space.constraints],
        "pools": [_pool_document(space, pool) for pool in space.pools.values()],
        "links": [_link_document(space, link) for link in space.links],
        "designs": {
            name: {key: value for key, value in design.items() if value is not None}
            for name, design in space.designs.items()
        },
    }


def _pool_document(space: DesignSpace, pool: Pool) -> dict[str, Any]:
    return {
        "name": pool.name,
        "role": pool.role,
        "machine": pool.machine,
        "machines": list(_parameter(space, pool.full_name(MACHINES)).values),
        "size": pool.space.size,
        "parameters": [pool.full_name(name) for name in pool.parameter_names],
    }


def _link_document(space: DesignSpace, link: LinkEnds) -> dict[str, Any]:
    return {
        "name": link.name,
        "from": link.sender,
        "to": link.receiver,
        "parameters": [item.name for item in _parameters_of_link(space, link)],
    }


def _parameter(space: DesignSpace, name: str) -> Parameter:
    return space.parameters[space.names.index(name)]


def _parameters_of_link(space: DesignSpace, link: LinkEnds) -> list[Parameter]:
    names = [f"{link.name}_{key}" for key in LINK_PARAMETERS.values()]
    return [_parameter(space, name) for name in names if name in space.names]


def _parameter_document(parameter: Parameter) -> dict[str, Any]:
    names = ("name", "kind", "values", "optional", "when", "unit", "catalog", "description")
    return {name: getattr(parameter, name) for name in names}


def space_tables(space: DesignSpace) -> list[RenderableType]:
    """A design space in full: size, parameters, constraints, named designs."""
    facts = {"file": space.source, "designs": f"{size_text(space)} that keep every constraint"}
    parts: list[RenderableType] = [pairs_table(space.name, facts)]
    if space.description.strip():
        parts.append(text_line(space.description.strip() + "\n"))
    conditions = ([item.text] for item in space.constraints)
    named = ((name, _design_text(space, design)) for name, design in space.designs.items())
    tables = [
        _pools_table(space),
        _links_table(space),
        _parameters_table(space),
        plain_table("Constraints", ["what must hold"], rows=conditions),
        _components_table(space),
        plain_table("Named designs", ["name", "design"], rows=named),
    ]
    return parts + [item for table in tables if table.row_count for item in (table, text_line(""))]


def _components_table(space: DesignSpace) -> Table:
    """The factors of the size: groups of parameters that depend on one another."""
    rows = ((", ".join(item.names), f"{item.size:,}") for item in space.components)
    return plain_table("Independent groups", ["parameters", "choices"], ["choices"], rows)


def _pools_table(space: DesignSpace) -> Table:
    """One line per pool: what its machines are, how many, and the designs of one."""
    headers = ["pool", "role", "machine", "count", "designs of one", "parameters"]
    table = plain_table("Pools", headers, headers[3:])
    for pool in space.pools.values():
        table.add_row(
            pool.name,
            pool.role,
            pool.machine,
            _values_text(_parameter(space, pool.full_name(MACHINES))),
            f"{pool.space.size:,}",
            str(len(pool.parameter_names)),
        )
    return table


def _links_table(space: DesignSpace) -> Table:
    table = plain_table("Links", ["link", "from", "to", "what it is"])
    for link in space.links:
        words = [_values_text(item) for item in _parameters_of_link(space, link)]
        table.add_row(link.name, link.sender, link.receiver, "; ".join(words))
    return table


def _parameters_table(space: DesignSpace) -> Table:
    table = plain_table("Parameters", ["name", "kind", "values", "present"])
    for parameter in space.parameters:
        present = parameter.when or ("or absent" if parameter.optional else "always")
        table.add_row(parameter.name, parameter.kind, _values_text(parameter), present)
    return table


def _values_text(parameter: Parameter) -> str:
    values = parameter.values
    if parameter.kind == "integer" and len(values) > _MOST_VALUES:
        return f"{parameter.show(values[0])} … {parameter.show(values[-1])} ({len(values):,})"
    texts = [_setting(parameter, value) for value in values[:_MOST_VALUES]]
    more = f", … ({len(values):,})" if len(values) > _MOST_VALUES else ""
    return ", ".join(texts) + more


def _setting(parameter: Parameter, value: Any) -> str:
    return format_setting(value) if isinstance(value, tuple) else parameter.show(value)


def _design_text(space: DesignSpace, design: Mapping[str, Any]) -> str:
    from codesign.report.result_tables import design_words

    return design_words(space, [design])[0]


def models_table(summaries: Sequence[Mapping[str, Any]]) -> Table:
    """One line per language model."""
    numbers = ["parameters", "active", "layers", "KV/token"]
    table = plain_table(
        "Language models", ["name", *numbers, "attention", "experts"], numbers
    )  # fmt: skip
    for item in summaries:
        experts = f"{item['experts_per_token']}/{item['experts']}" if item["experts"] else "–"
        table.add_row(
            item["name"],
            f"{item['parameters'] / 1e9:,.2f} G",
            f"{item['active_parameters'] / 1e9:,.2f} G",
            str(item["layers"]),
            f"{item['kv_elements_per_token']:,}",
            item["attention"],
            experts,
        )
    return table


def model_tables(summary: Mapping[str, Any]) -> list[RenderableType]:
    """One language model in full."""
    nested = {"parameters_by_part", "layers_by_attention", "sources", "notes", "counted", "name"}
    facts = {
        name.replace("_", " "): _fact(value)
        for name, value in summary.items()
        if name not in nested and value is not None
    }
    kinds = summary["layers_by_attention"].items()
    facts["attention of layers"] = ", ".join(
        f"{count} {kind.split('_')[0]}" for kind, count in kinds
    )
    counts = summary["parameters_by_part"].items()
    rows = ((part.replace("_", " "), f"{count:,}") for part, count in counts)
    parts = plain_table("Parameters by part", ["part", "parameters"], ["parameters"], rows)
    tables = spaced(pairs_table(summary["name"], facts), parts)
    if summary.get("counted"):
        tables.append(text_line(f"Counted: {summary['counted']}"))
    tables += [text_line(f"Note: {note}") for note in summary["notes"]]
    return tables + [text_line(f"Source: {source}") for source in summary["sources"]]


def _fact(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return format_setting(value)


def traces_table(traces: Mapping[str, Mapping[str, Any]]) -> Table:
    """One line per named workload."""
    numbers = ["prompt tokens", "generated tokens"]
    table = plain_table("Workloads", ["name", *numbers, "description"], numbers)
    for name, trace in traces.items():
        counts = [f"{trace[key]:,}" for key in ("prompt_tokens", "generated_tokens")]
        table.add_row(name, *counts, trace["description"])
    return table


def metrics_table(metrics: Iterable[Metric]) -> Table:
    """What every metric means."""
    table = plain_table("Metrics", ["name", "unit", "better", "meaning"])
    for metric in metrics:
        better = {"minimize": "lower", "maximize": "higher"}[metric.sense]
        table.add_row(metric.name, unit_text(metric.unit) or "–", better, metric.meaning)
    return table


def plugin_document(plugin: Any) -> dict[str, Any]:
    """A registered evaluator or optimizer: what its class says of itself."""
    records = {"workload": "Workload", "options": "Options"}
    record_classes = {key: getattr(plugin, name, None) for key, name in records.items()}
    return {
        "class": f"{plugin.__module__}:{plugin.__qualname__}",
        "description": _first_line(plugin.__doc__),
        **{key: _fields(record) for key, record in record_classes.items() if record is not None},
    }


def _first_line(text: str | None) -> str:
    return (text or "").strip().split("\n\n")[0].replace("\n", " ").strip()


def _fields(record: type[Record]) -> list[dict[str, Any]]:
    """The keys of a record with their defaults, from its JSON schema."""
    return [
        {
            "name": field.alias or name,
            "required": field.is_required(),
            "default": None
            if field.is_required()
            else field.get_default(call_default_factory=True),
        }
        for name, field in record.model_fields.items()
    ]


def plugins_table(kind: str, documents: Mapping[str, Mapping[str, Any]]) -> Table:
    """One line per plug-in, or the reason why it cannot be used."""
    table = plain_table(kind.capitalize(), ["name", "options (defaults)", "description"])
    for name, document in documents.items():
        options = ", ".join(_option_text(option) for option in document.get("options", ()))
        table.add_row(name, options or "–", document.get("error", document.get("description", "")))
    return table


def _option_text(option: Mapping[str, Any]) -> str:
    if isinstance(option["default"], Record):
        return f"{option['name']} (options of its own)"
    default = "required" if option["required"] else format_setting(option["default"])
    return f"{option['name']} ({default})"

"""Tables of the library: technologies, spaces, models, metrics, plug-ins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table

from codesign.answers.library import BrokenPluginEntry, DeviceAnswer, ModelAnswer, Plugins
from codesign.base.columns import MACHINES
from codesign.base.metrics import Metric
from codesign.base.schema import Record
from codesign.base.units import parse_unit
from codesign.models.hardware.device import Device
from codesign.models.memtech import MemoryTechnology, Technologies
from codesign.models.workload.reuse import ReuseSummary
from codesign.models.workload.traces import Trace
from codesign.report.labels import BETTER, design_words, format_setting, format_value, unit_text
from codesign.report.tables import Tables, pairs_table, plain_table, record_table, spaced
from codesign.space import DesignSpace
from codesign.space.parameters import Parameter
from codesign.space.pool_records import LINK_PARAMETERS

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
_OPTIONAL_UNITS = {
    "streamed_efficiency": "1", "paged_efficiency": "1",
    "gathered_efficiency": "1", "written_efficiency": "1",
    "price": "USD/GB", "interface_area": "mm^2", "embodied_carbon": "g/GB",
}  # fmt: skip
"""Units of what a technology's file may leave out."""
_SHORT = {
    "shoreline": "edge",
    "background_power": "idle",
    "read_energy": "read",
    "write_energy": "write",
}
_MOST_VALUES = 12


def technologies_table(library: Technologies) -> Table:
    """One line per technology, typical values per unit."""
    rows = [
        {
            "name": name,
            "of": technology,
            "status": " ".join(map(str, filter(None, [technology.status, technology.available]))),
        }
        for name, technology in library.items()
    ]
    columns = (
        f"of.{name}.typical:{unit}={_SHORT.get(name, name)}_{unit}"
        for name, unit in _TECHNOLOGY_COLUMNS.items()
    )
    fields = f"name of.unit=one status {' '.join(columns)}"
    return record_table("Memory technologies: typical values of one", rows, fields)


def technology_tables(technology: MemoryTechnology) -> Tables:
    """One technology in full: the published range of every number and where it was read."""
    table = plain_table(
        f"{technology.name} ({technology.place}, of one {technology.unit})",
        ["", "low", "typical", "high", "unit", "source"],
        ["low", "typical", "high"],
    )
    for name, unit in (_TECHNOLOGY_COLUMNS | _OPTIONAL_UNITS).items():
        values = getattr(technology, name)
        if values is None:
            continue
        ends = map(values.value_at, ("low", "typical", "high"))
        levels = [format_value(x / parse_unit(unit).scale) if x else "–" for x in ends]
        table.add_row(name.replace("_", " "), *levels, unit, technology.sources.get(name, "–"))
    rendered: Tables = [table]
    if technology.place == "off-chip":
        edge = "It takes no die edge."
        if technology.shoreline.high:
            edge = "Its shoreline is charged to the die edge reserved for memory" + (
                f", except in spaces with uncharged_edge: {technology.family}."
                if technology.family
                else "."
            )
        rendered.append(edge)
    return rendered + ([technology.note.strip()] if technology.note.strip() else [])


def spaces_table(spaces: Mapping[str, DesignSpace]) -> Table:
    """One line per design space."""
    rows = (
        (name, size_text(x) if x.size < 1e15 else f"{x.size:.3g}", x.description.strip())
        for name, x in spaces.items()
    )
    return plain_table("Design spaces", ["name", "designs", "description"], ["designs"], rows)


def size_text(space: DesignSpace) -> str:
    """The number of feasible designs."""
    return f"{space.size:,}"


def _parameter(space: DesignSpace, name: str) -> Parameter:
    return space.parameters[space.names.index(name)]


def space_tables(space: DesignSpace) -> Tables:
    """A design space in full: size, parameters, constraints, named designs."""
    facts = {"file": space.source, "designs": f"{size_text(space)} that keep every constraint"}
    rendered: Tables = [pairs_table(space.name, facts)]
    if space.description.strip():
        rendered.append(space.description.strip() + "\n")
    conditions = ([constraint.text] for constraint in space.constraints)
    designs = zip(space.designs, design_words(space, space.designs.values()), strict=True)
    rows = ((", ".join(component.names), f"{component.size:,}") for component in space.components)
    components_table = plain_table(
        "Independent groups", ["parameters", "choices"], ["choices"], rows
    )
    headers = ["pool", "role", "machine", "count", "designs of one", "parameters"]
    pools_table = plain_table("Pools", headers, headers[3:])
    for pool in space.pools.values():
        pools_table.add_row(
            pool.name,
            pool.role,
            pool.machine,
            _values_text(_parameter(space, pool.full_name(MACHINES))),
            f"{pool.space.size:,}",
            str(len(pool.parameter_names)),
        )
    links_table = plain_table("Links", ["link", "from", "to", "what it is"])
    for link in space.links:
        names = [f"{link.name}_{key}" for key in LINK_PARAMETERS.values()]
        words = [_values_text(_parameter(space, name)) for name in names if name in space.names]
        links_table.add_row(link.name, link.sender, link.receiver, "; ".join(words))
    parameters_table = plain_table("Parameters", ["name", "kind", "values", "present"])
    for parameter in space.parameters:
        present = parameter.when or ("or absent" if parameter.optional else "always")
        parameters_table.add_row(parameter.name, parameter.kind, _values_text(parameter), present)
    tables = [
        pools_table,
        links_table,
        parameters_table,
        plain_table("Constraints", ["what must hold"], rows=conditions),
        components_table,
        plain_table("Named designs", ["name", "design"], rows=designs),
    ]
    return rendered + [line for table in tables if table.row_count for line in (table, "")]


def _values_text(parameter: Parameter) -> str:
    values = parameter.values
    if parameter.kind == "integer" and len(values) > _MOST_VALUES:
        return f"{parameter.show(values[0])} … {parameter.show(values[-1])} ({len(values):,})"
    texts = [
        (format_setting(value) if isinstance(value, tuple) else parameter.show(value))
        for value in values[:_MOST_VALUES]
    ]
    more = f", … ({len(values):,})" if len(values) > _MOST_VALUES else ""
    return ", ".join(texts) + more


_PRECISIONS = ("bf16", "fp8", "fp4")


def devices_table(devices: Mapping[str, Device]) -> Table:
    """One line per device: peak rates, memory, links, power."""
    rows = [
        {"name": f"{name}{' *' * device.is_announced}", "of": device}
        for name, device in devices.items()
    ]
    rates = (f"of.peak.{name}:TFLOP/s={name}_TFLOP/s" for name in _PRECISIONS)
    fields = (
        f"name {' '.join(rates)} of.bandwidth:TB/s=TB/s of.capacity:GB=GB "
        "of.link_bandwidth:GB/s=link_GB/s of.power:W=W"
    )
    return record_table("Devices: announced ones have a *", rows, fields)


_DEVICE_UNITS = {
    name: unit
    for name, _, unit in (
        row.partition(" ")
        for row in """\
bandwidth B/s
capacity B
cache B
kernel_start s
quantize_start s
clock Hz
link_bandwidth B/s
link_latency s
network_bandwidth B/s
network_latency s
slow_bandwidth B/s
slow_capacity B
power W
least_power W
process_power
stream_fraction
step_latency s
n_cores
burst_fraction
sustained_fraction
n_linked
""".splitlines()
    )
}


def device_tables(device: DeviceAnswer) -> Tables:
    """One device in full: every number and its source, its rent, and the error to expect."""
    values = {f"peak of {name}": (rate, "FLOP/s") for name, rate in device.peak.items()}
    values |= {name: (getattr(device, name), unit) for name, unit in _DEVICE_UNITS.items()}
    rows = (
        (name.replace("_", " "), format_value(value, unit), device.sources[key])
        for name, (value, unit) in values.items()
        if (key := name.partition(" ")[0]) in device.sources
    )
    title = f"{device.name} ({device.vendor}, {device.device_class})"
    rendered: Tables = [plain_table(title, ["", "value", "source"], ["value"], rows)]
    notes = ["The figures are announced ones."] if device.is_announced else []
    notes += [device.note.strip()] if device.note.strip() else []
    notes += [*device.rent, *device.expected_errors]
    return [*rendered, *notes]


def models_table(models: Sequence[ModelAnswer]) -> Table:
    """One line per language model."""
    numbers = ["parameters", "active", "layers", "KV/token"]
    table = plain_table(
        "Language models", ["name", *numbers, "attention", "experts"], numbers
    )  # fmt: skip
    for model in models:
        table.add_row(
            model.name,
            f"{model.parameters / 1e9:,.2f} G",
            f"{model.active_parameters / 1e9:,.1f} G",
            str(model.layers),
            f"{model.kv_elements_per_token:,.0f}",
            model.attention,
            f"{model.experts_per_token}/{model.experts}" if model.experts else "–",
        )
    return table


def model_tables(model: ModelAnswer) -> Tables:
    """One language model in full."""
    nested = {"parameters_by_part", "layers_by_attention", "sources", "notes", "counted", "name"}
    facts = {
        name.replace("_", " "): f"{int(value):,}"
        if type(value) in (int, float) and value % 1 == 0
        else format_setting(value)
        for name, value in model
        if name not in nested and value is not None
    }
    kinds = model.layers_by_attention.items()
    facts["attention of layers"] = ", ".join(
        f"{count} {kind_name.split('_')[0]}" for kind_name, count in kinds
    )
    counts = model.parameters_by_part.items()
    rows = ((part_name.replace("_", " "), f"{count:,}") for part_name, count in counts)
    rendered = plain_table("Parameters by part", ["part", "parameters"], ["parameters"], rows)
    tables = spaced(pairs_table(model.name, facts), rendered)
    if model.counted:
        tables.append(f"Counted: {model.counted}")
    tables += [f"Note: {note}" for note in model.notes]
    return tables + [f"Source: {source}" for source in model.sources]


def traces_table(traces: Mapping[str, Trace]) -> Table:
    """One line per named workload."""
    rows = [{"name": name, **dict(trace)} for name, trace in traces.items()]
    return record_table("Workloads", rows, "name prompt_tokens generated_tokens description")


def sessions_table(sessions: Mapping[str, ReuseSummary]) -> Table:
    """One line per session: turns, growth of the prompt, reuse, tokens between turns."""
    rows = [{"name": name, **vars(session)} for name, session in sessions.items()]
    fields = "name turns first_prompt_tokens=first_prompt last_prompt_tokens=last_prompt"
    return record_table(
        "Sessions", rows, f"{fields} generated_tokens=answers reuse_share=reused "
        "working_set_tokens=working_set description",
    )  # fmt: skip


def metrics_table(metrics: Iterable[Metric]) -> Table:
    """Meaning of every metric."""
    rows = [
        vars(metric) | {"unit": unit_text(metric.unit) or "–", "better": BETTER[metric.sense]}
        for metric in metrics
    ]
    return record_table("Metrics", rows, "name unit better meaning")


def plugins_table(title: str, plugins: Plugins) -> Table:
    """One line per plug-in, or the reason why it cannot be used."""
    table = plain_table(title, ["name", "options (defaults)", "description"])
    for name, plugin in plugins.items():
        if isinstance(plugin, BrokenPluginEntry):
            table.add_row(name, "–", plugin.error)
            continue
        options = ", ".join(
            f"{option.name} (options of its own)"
            if isinstance(option.default, Record)
            else f"{option.name} (required)"
            if option.required
            else f"{option.name} ({format_setting(option.default)})"
            for option in plugin.options or ()
        )
        table.add_row(name, options or "–", plugin.description)
    return table

"""Reference pages, written from the code when the site is built: they cannot disagree with it."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from codesign import __version__, api, problems, testing
from codesign.answers.answer import answers, schema_of
from codesign.base import metrics, plugins
from codesign.base.schema import Record, meanings
from codesign.cli.app import command_tree
from codesign.models.memtech.technology import MemoryTechnology
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.request import Request
from codesign.models.workload.traces import Trace
from codesign.search import study
from codesign.search.campaign.campaign_definition import Definition, OptimizerChoice, PluginChoice
from codesign.search.derived_metrics import MetricDefinition
from codesign.space import pools, space_records

_FILES: dict[str, tuple[type[Record], ...]] = {
    "A campaign: `runs/NAME.yaml`": (
        Definition,
        MetricDefinition,
        OptimizerChoice,
        PluginChoice,
        Request,
        Trace,
    ),
    "A memory technology: `memtech/NAME.yaml`": (MemoryTechnology,),
    "A design space: `spaces/NAME.yaml`": (
        space_records.SpaceRecord,
        space_records.ParameterRecord,
        space_records.RepeatedRecord,
        space_records.DerivedRecord,
        space_records.ConstraintRecord,
        space_records.DesignRecord,
        pools.PoolRecord,
    ),
    "A language model: `config.json`, or YAML with its keys": (LanguageModel,),
}
_SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|Examples):$", re.MULTILINE)


def pages() -> dict[str, str]:
    """Text of every page by its place in the site."""
    return {
        "reference/commands.md": "".join(_commands()),
        "reference/python.md": "".join(_python()),
        "reference/files.md": "".join(_files()),
        "reference/metrics.md": "".join(_metrics()),
        "reference/schemas.md": "".join(_schemas()),
    }


def _cell(text: object) -> str:
    """Text of one cell of a table."""
    return re.sub(r"\s+", " ", str(text)).replace("``", "`").replace("|", "\\|").strip()


def _table(head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines) + "\n\n"


def _commands() -> Iterator[str]:
    yield f"# Command line\n\nThe commands of codesign {__version__} with their options.\n\n"
    tree = command_tree()
    for name, command in tree.commands.items():
        context = tree.context_class(command, info_name=f"codesign {name}")
        records_of_help = [parameter.get_help_record(context) for parameter in command.params]
        rows = [(f"`{words}`", meaning) for words, meaning in filter(None, records_of_help)]
        yield f"## codesign {name}\n\n{inspect.cleandoc(command.help or '')}\n\n"
        yield _table(("Option", "Meaning"), rows)


def _python() -> Iterator[str]:
    yield (
        "# Python\n\nWhat `import codesign` offers, the public set of problems, and the checks for "
        "plug-ins.\n\n"
    )
    for module in (api, study, problems, testing):
        prefix = "codesign" if module in (api, study) else module.__name__
        for name in module.__all__:
            value = getattr(module, name)
            call = f"{prefix}.{name}{inspect.signature(value)}"
            yield f"## {prefix}.{name}\n\n```python\n{_wrapped(call)}\n```\n\n"
            yield _docstring(value)
            yield from _members(value)


def _wrapped(call: str) -> str:
    call = re.sub(r"(: |-> )'([^']*)'", r"\1\2", call)  # annotations are kept as text
    return call if len(call) <= 88 else re.sub(r", (?=\*?[a-z_]+(?::|,|=))", ",\n    ", call)


def _members(value: Any) -> Iterator[str]:
    """Public methods and properties of a class."""
    if not inspect.isclass(value):
        return
    for name, member in vars(value).items():
        if not name.startswith("_") and (callable(member) or isinstance(member, property)):
            call = name if isinstance(member, property) else f"{name}{inspect.signature(member)}"
            yield f"### {value.__name__}.{name}\n\n```python\n{_wrapped(call)}\n```\n\n"
            yield _docstring(member)


def _docstring(value: Any) -> str:
    """A docstring as Markdown: each section is a heading in bold with its lines as a list."""
    text, *sections = _SECTION.split(inspect.getdoc(value) or "")
    result = [text.strip() + "\n\n"]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        lines = textwrap.dedent(body.strip("\n"))
        if title == "Examples" or ">>>" in lines:
            result.append(f"```pycon\n{lines}\n```\n\n")
            continue
        items = re.sub(r"\n +", " ", lines).strip().splitlines()
        named = [re.sub(r"^(\w+): ", r"`\1`: ", item) for item in items if item]
        result.append(f"**{title}**\n\n" + "".join(f"- {item}\n" for item in named) + "\n")
    return "".join(result)


def _files() -> Iterator[str]:
    yield (
        "# Files\n\nKeys of the files that you write. An unknown key is an error that names file, "
        "line and key. A quantity has its unit in its value (`819.2 GB/s`).\n\n"
    )
    for title, classes in _FILES.items():
        yield f"## {title}\n\n"
        for record in classes:
            yield f"### {record.__name__}\n\n{inspect.getdoc(record)}\n\n"
            texts = meanings(record)
            rows: list[tuple[object, ...]] = []
            for name, field in record.model_fields.items():
                default = field.get_default(call_default_factory=True)
                state = "required" if field.is_required() else f"`{default!r}`"
                rows.append((f"`{field.alias or name}`", state, texts.get(name, "")))
            yield _table(("Key", "Default", "Meaning"), rows)
    yield "## Options of evaluators and optimizers\n\n"
    for group in ("evaluators", "optimizers"):
        for name in plugins.names(group):
            plugin = plugins.load(group, name)
            yield f"### {name} ({group.removesuffix('s')})\n\n{_first(plugin)}\n\n"
            texts = meanings(plugin.Options)
            rows = [(f"`{key}`", texts.get(key, "")) for key in plugin.Options.model_fields]
            yield _table(("Option", "Meaning"), rows) if rows else "No options.\n\n"


def _first(value: Any) -> str:
    """The first paragraph of a docstring."""
    return (inspect.getdoc(value) or "").split("\n\n")[0]


def _metrics() -> Iterator[str]:
    yield "# Metrics\n\nObjectives and limits of campaigns are over these, and over parameters.\n\n"
    for name, table in (
        ("npu and simulation", metrics.METRICS),
        ("npu with accuracy: true", metrics.ACCURACY_METRICS),
        ("npu with accuracy_table", metrics.DIVERGENCE_METRICS),
        ("platform", metrics.PLATFORM_METRICS),
        ("economics", metrics.ECONOMICS_METRICS),
        ("system", metrics.SYSTEM_METRICS),
        ("system, of each pool", metrics.POOL_METRICS),
    ):
        rows = [(f"`{item.name}`", item.sense, item.unit, item.meaning) for item in table.values()]
        yield f"## {name}\n\n" + _table(("Metric", "Better", "Unit", "Meaning"), rows)


def _schemas() -> Iterator[str]:
    yield (
        "# JSON Schemas\n\nThe keys of each document that `--json` prints. "
        "[Documents of `--json`](../json.md) says which command prints it.\n\n"
    )
    for record in answers().values():
        schema = schema_of(record)
        yield f"## {record.schema_label()}\n\n{schema['title']}.\n\n"
        rows: list[tuple[object, ...]] = []
        for key, value in schema.get("properties", {}).items():
            required = "" if key in schema.get("required", ()) else "optional"
            rows.append((f"`{key}`", required, value.get("description", _kind(value))))
        yield _table(("Key", "", "Meaning"), rows) if rows else ""


def _kind(value: dict[str, Any]) -> str:
    """The type where a schema has no words."""
    if "$ref" in value:
        return f"`{value['$ref'].rsplit('/', 1)[-1]}`"
    return f"`{json.dumps(value.get('const', value.get('type', '')))}`"

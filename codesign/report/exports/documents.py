"""Observations as one document: JSON for programs, YAML for people and for ``codesign``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign.files import replacing
from codesign.report.exports.observed import observations, provenance
from codesign.report.frames import Scope, positions_of
from codesign.report.plain import to_json_text

if TYPE_CHECKING:
    from codesign.campaign import Results


def to_json(results: Results, path: Path, scope: Scope = "front") -> Path:
    """Provenance and ``observations``, one object each; NaN and infinity are null."""
    head = to_json_text(provenance(results, scope)).removesuffix("\n}")
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        file.write(head + ',\n  "observations": [')
        for number, item in enumerate(observations(results, positions_of(results, scope))):
            file.write((",\n    " if number else "\n    ") + to_json_text(item, indent=None))
        file.write("\n  ]\n}\n")
    return path


def to_yaml(results: Results, path: Path, scope: Scope = "front") -> Path:
    """Provenance, ``designs`` by name as a space file has them, and their ``results``.

    ``codesign evaluate --design-file FILE --design NAME`` accepts it back, workload included.
    """
    import yaml

    designs, outcomes = {}, {}
    for number, item in enumerate(observations(results, positions_of(results, scope)), start=1):
        name = f"{scope}-{number}"
        said = "campaign {}, {optimizer}, seed {seed}, step {step}"
        source = said.format(results.definition.name, **item)
        designs[name] = {"values": item.pop("design"), "source": source}
        outcomes[name] = item
    # What people look for comes first; the resolved problem is long.
    document = {"designs": designs, "results": outcomes} | provenance(results, scope)
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        yaml.dump(document, file, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=100)
    return path


def _dumper() -> Any:
    """Lists of plain values on one line, so that ``[2048, 256]`` reads as in a space file."""
    import yaml

    # The one in C writes the same text ten times faster.
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc]  # one of two classes
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(dumper: Any, data: list[Any]) -> Any:
        is_flat = not any(isinstance(item, list | dict) for item in data)
        return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=is_flat)

    Dumper.add_representer(list, represent)
    return Dumper

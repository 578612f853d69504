"""Observations as one document: JSON for programs, YAML for people and for ``codesign``."""

from __future__ import annotations

from pathlib import Path

from codesign.answers.campaigns import Provenance, observations
from codesign.answers.json_values import json_text, plain_value
from codesign.base.files import replacing
from codesign.report.exports.yaml_text import yaml_lines
from codesign.report.frames import Scope, numbers_of, positions_of
from codesign.search.campaign import Results


def write_json(results: Results, path: Path, scope: Scope = "front") -> Path:
    """Provenance and ``observations``, one object each; NaN and infinity are null."""
    head = json_text(Provenance.describe(results, scope)).removesuffix("\n}")
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        file.write(head + ',\n  "observations": [')
        numbers = numbers_of(results, scope).tolist()
        observed = observations(results, positions_of(results, scope))
        for index, (number, observation) in enumerate(zip(numbers, observed, strict=True)):
            more = {"front_number": number} if scope == "folded" else {}
            file.write(
                (",\n    " if index else "\n    ") + json_text(more | observation, indent=None)
            )
        file.write("\n  ]\n}\n")
    return path


def write_yaml(results: Results, path: Path, scope: Scope = "front") -> Path:
    """Provenance, ``designs`` by name as a space file has them, and their ``results``.

    ``codesign evaluate --design-file FILE --design NAME`` accepts it back, workload included.
    """
    positions = positions_of(results, scope)
    numbers = numbers_of(results, scope).tolist()
    prefix = "all" if scope == "all" else "front"
    # What people look for comes first; the resolved problem is long.
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        for key in ("designs", "results"):
            file.write(f"{key}:\n" if len(positions) else f"{key}: {{}}\n")
            for number, observation in zip(numbers, observations(results, positions), strict=True):
                entry = {name: x for name, x in observation.items() if name != "design"}
                if key == "designs":
                    origin = "campaign {}, {optimizer}, seed {seed}, step {step}"
                    source = origin.format(results.definition.name, **observation)
                    entry = {"values": observation["design"], "source": source}
                file.write(f"  {prefix}-{number}:\n{yaml_lines(entry, level=2)}")
        file.write(yaml_lines(plain_value(Provenance.describe(results, scope))))
    return path

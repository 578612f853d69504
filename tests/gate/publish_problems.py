"""Publish the exact fronts of the public set of problems.

``python -m tests.gate.publish_problems`` writes the files of every problem in ``KINDS`` that has
none, or whose definition is not that of its latest version, which then gets the next version. What
is published is never written over. ``codesign compare problems --verify`` computes each front anew
and compares it with its file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from codesign.base.files import write_text
from codesign.insight.comparison.published_problems import files_of, proven
from codesign.search.campaign.campaign_definition import load_definition
from codesign.search.problems import problem_records
from codesign.search.problems.problem_records import CAMPAIGN, FOLDER, ProblemRecord

KINDS: dict[str, tuple[str, ...]] = {
    "closed form": ("zdt1", "zdt2", "zdt3", "zdt1-30", "dtlz2", "dtlz2-5"),
    "engineering": ("re21", "re22", "re24", "re31", "re33", "re37", "re41"),
    "limits": ("cre23", "welded-beam", "osy", "mw1", "mw7", "mw14"),
    "few feasible": ("tight-osy", "tight-mw1"),
    "categories": ("categories-re21", "categories-re37"),
    "conditional": ("cantilever",),
    "unused parameters": ("unused-osy", "unused-re21", "mostly-unused-re21"),
    "deceptive": ("trap", "stairs"),
    "narrow band": ("band",),
    "exact rules": ("assignment", "shares"),
    "noisy": ("noisy-re21", "noisy-osy"),
    "failing": ("failing-re37", "failing-welded-beam"),
    "npu": tuple(
        f"{phase}-{model}-{goal}"
        for phase in ("prefill", "decode")
        for model in ("llama-3.3-70b", "qwen3-32b", "mixtral-8x22b")
        for goal in ("tdp", "slo", "energy")
    ),
    "npu, narrow front": ("prefill-qwen3-32b-400w",),
    "npu, all formats": ("large-decode-llama-3.3-70b",),
    "platform": ("platform-rag", "platform-code-mixtral"),
    "forecast": ("forecast-edge", "forecast-laptop"),
    "economics": ("economics-llama",),
    "system": ("system-llama-3.3-70b",),
}
"""The problems of the set by kind."""


def publish(names: Sequence[str], folder: Path) -> Iterator[str]:
    """Write what is new; a line for each problem."""
    for family, members in KINDS.items():
        for name in members:
            if names and name not in names:
                continue
            definition = load_definition(CAMPAIGN + name)
            versions = [
                problem_records.read_record(path)
                for path in FOLDER.glob(f"{name}.v*.json")
                if path.name.removeprefix(f"{name}.v").removesuffix(".json").isdigit()
            ]
            latest = max(versions, key=lambda record: record.version, default=None)
            key = problem_records.definition_digest(definition.problem, definition.reference_point)
            if latest and latest.definition_sha256 == key:
                yield f"{latest.label}: published"
                continue
            version = latest.version + 1 if latest else 1
            record, text = files_of(name, family, version, definition, proven(definition, folder))
            for ending, content in ((".csv", text), (".json", record_text(record))):
                write_text(FOLDER / f"{record.label}{ending}", content)
            yield f"{record.label}: {record.front_points:,} points, {record.hypervolume!r}"


def record_text(record: ProblemRecord) -> str:
    """The content of a record's file."""
    return json.dumps(record.model_dump(mode="json"), indent=1) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Publish; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="problems; all if none is named")
    parser.add_argument("--folder", type=Path, default=Path("runs/fronts"), help="of exact fronts")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for line in publish(options.names, options.folder):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

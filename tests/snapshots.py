"""Numbers of our documents, kept: a change that nobody meant is noticed.

``make snapshots`` writes them anew. Numbers that others publish are in ``golden/tables`` instead.
"""

import json
import math
import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).with_name("snapshots")
UPDATE = "CODESIGN_UPDATE_SNAPSHOTS"
TOLERANCE = 1e-6
"""Relative difference on another CPU; a sum of optimizers' choices may differ more than a law."""
_OF_THE_MACHINE = re.compile(
    r"^bytes$|second|_days|size_bytes|pid|processes|elapsed|workers|version|line"
)
"""Keys whose numbers depend on the machine, the day or the release."""


def numbers(document, path=""):
    """Path and value of each number; of a list its length and its ends."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            if not _OF_THE_MACHINE.search(str(key)):
                yield from numbers(value, f"{path}/{key}")
    elif isinstance(document, list):
        yield f"{path}/#", len(document)
        for i in {0, len(document) - 1} if document else ():
            yield from numbers(document[i], f"{path}/{i}")
    elif isinstance(document, int | float):
        yield path, document if isinstance(document, int) else float(f"{document:.9g}")


def differences(words, document):
    """Numbers of a command's document that differ from the snapshot, which is written if asked."""
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower())[:48].strip("-")
    path = FOLDER / f"{slug}-{sha256(words.encode()).hexdigest()[:6]}.json"
    got = dict(numbers(document))
    if os.environ.get(UPDATE):
        FOLDER.mkdir(exist_ok=True)
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(x)}" for key, x in got.items())
        path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    kept = json.loads(path.read_text(encoding="utf-8"))
    return [
        f"{key}: expected {kept.get(key)}, got {got.get(key)}"
        for key in kept.keys() | got.keys()
        if key not in kept
        or key not in got
        or not math.isclose(kept[key], got[key], rel_tol=TOLERANCE, abs_tol=1e-15)
    ]

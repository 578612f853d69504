"""Write the measured corrections of laws that the package ships.

``python -m validation.studies.fit_corrections``, after the constants of the laws are
fitted: corrections are of what they leave. Nothing is random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from codesign.base.columns import JsonObject
from codesign.base.files import replacing
from codesign.models.machines.device.corrections import (
    CORRECTIONS_FILE,
    OCTAVE_STEPS,
    MeasuredGroup,
)
from validation.studies.kernel_families.correcting import fitted_groups
from validation.studies.kernels import FAMILIES, family_of, measured_kernels


def main() -> None:
    """Fit the corrections of all families that have some, and ship them."""
    table, _ = measured_kernels()
    families = [family for family in map(family_of, FAMILIES) if family.case is not None]
    groups = {
        family.file: fitted_groups(family, table.operator_rows(family.operators))
        for family in families
    }
    with replacing(CORRECTIONS_FILE) as path:
        write_groups(groups, path)


def write_groups(families: Mapping[str, Mapping[str, MeasuredGroup]], path: Path) -> None:
    """Write what ``measured_groups`` reads."""
    arrays: JsonObject = {}
    for family, groups in families.items():
        values: Sequence[MeasuredGroup] = list(groups.values())
        steps = np.concatenate([group.points for group in values]) * OCTAVE_STEPS
        arrays[f"{family} names"] = np.array(list(groups))
        arrays[f"{family} ends"] = np.cumsum([len(group.weights) for group in values])
        arrays[f"{family} points"] = np.rint(steps).astype(np.int16)
        weights = np.concatenate([group.weights for group in values])
        arrays[f"{family} weights"] = weights.astype(np.float32)
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


if __name__ == "__main__":
    main()

"""CO2 equivalents from making and running accelerators.

.. [Gupta2022] Gupta et al., "ACT: Designing Sustainable Computer Systems With An Architectural
   Carbon Modeling Tool", ISCA 2022: wafer area by process, memory by the byte, 0.15 kg a package;
   energy by the intensity of the grid.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray
from codesign.models.accounts.account_constants import Constants
from codesign.models.accounts.dies import Stacks
from codesign.models.hardware.accelerator import MemoryLevels

JOULES_PER_KWH = 3.6e6


def embodied_kgco2e(stacks: Stacks, levels: MemoryLevels, constants: Constants) -> FloatArray:
    """(n,) CO2 equivalents of one accelerator: dies with those that failed, memories, package.

    Limiting assumption: interposer, board and host are left out.
    """
    silicon = stacks.wafer_mm2 / 100.0 * constants.fab_kgco2e_per_cm2
    return np.asarray(silicon + levels.embodied_kgco2e.sum(axis=0) + constants.package_kgco2e)


def operational_kgco2e_per_joule(constants: Constants) -> float:
    """CO2 equivalents of a joule that the machine draws, with the data center's overhead."""
    return constants.pue * constants.grid_kgco2e_per_kwh / JOULES_PER_KWH

"""Temperatures of stacks against a finite-volume solution of the same conduction, and imec's.

The stacks are designs drawn from the space ``memexplorer``, with 4, 8 or 16 bits and either class
of cooling. Cells are a 64th of the die's long side; each plate has cells of its own, the same bonds
between them and the same resistance on top.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import spsolve

from codesign.base.columns import FloatArray, FloatPair
from codesign.models.accounts.account_constants import Constants, Cooling, constants_at
from codesign.models.accounts.area import floorplan
from codesign.models.accounts.heat import (
    BASE_MM,
    LAYER_MM,
    SILICON_WATTS_PER_MM_KELVIN,
    WAFER_MM,
    Sources,
    block_densities,
    sources_of,
    temperatures,
)
from codesign.models.accounts.placement import Placement, place
from codesign.models.accounts.price import cheapest_unit
from codesign.models.hardware.accelerator import build_accelerators
from codesign.models.hardware.power import thermal_design_watts
from codesign.models.memtech import load_library
from codesign.space import load_space
from validation.studies.study import (
    Study,
    comparison,
    count_promise,
    errors_of,
    ranged_row,
    summarize,
)

_CELLS = 64
_WITHIN_KELVIN = 10.0
_SIZE = 50
_IMEC = "imec, thermal study of HBM on a GPU (IEDM 2025; Electronics Weekly)"
_BESIDE, _ON_TOP, _LAYERS = 69.1, 141.7, 12


def drawn_stacks(n: int, seed: int, constants: Constants) -> tuple[Sources, Placement]:
    """Heat and floorplan of ``n`` designs, each with one width of operands."""
    library = load_library()
    space = load_space("memexplorer", {"memtech": library.catalog()})
    rng = np.random.default_rng(seed)
    hardware = build_accelerators(space.columns(space.sample(rng, n)), library)
    bits = np.tile(rng.choice([4.0, 8.0, 16.0], n), (2, 1))
    plan = floorplan(hardware, bits[0], bits[1], constants)
    stacks = cheapest_unit(plan, hardware.levels, constants).stacks
    placement = place(
        plan, hardware.levels, stacks.n_dies, stacks.n_dies * stacks.base_mm2, constants
    )
    watts = thermal_design_watts(hardware, bits[0], bits[1], constants.operation_energies)
    return sources_of(hardware, watts, bits, np.ones(n), constants), placement


def solved_celsius(
    sources: Sources, placement: Placement, i: int, constants: Constants, cooling: Cooling
) -> float:
    """Hottest spot of the base of one design by finite volumes."""
    width, height = placement.sides_mm[:, i].tolist()
    size = max(width, height) / _CELLS
    nx, ny = (max(round(side / size), 8) for side in (width, height))
    cell_x, cell_y = width / nx, height / ny
    n_layers = int(sources.n_layers[i] + sources.n_dram[i])
    base_mm = BASE_MM if n_layers else WAFER_MM
    plates = [base_mm / 6] * 6 if not n_layers else [base_mm / 2] * 2
    bonded_above = {len(plates) - 1 + number for number in range(n_layers)}
    thickness = np.array(plates + [LAYER_MM] * n_layers)
    power = np.zeros((len(thickness), ny, nx))
    densities = block_densities(sources, placement)[1:, i] - sources.spread[i] / (width * height)
    x, y, wide, high = (
        values[:, i] for values in (placement.x, placement.y, placement.width, placement.height)
    )
    for rectangle in np.flatnonzero(densities * wide * high > 0).tolist():
        power[0] += densities[rectangle] * _covered(
            (x[rectangle], wide[rectangle]), (y[rectangle], high[rectangle]), (nx, ny),
            (cell_x, cell_y),
        )  # fmt: skip
    power[0] += sources.spread[i] / (nx * ny)
    layer = placement.layers[:, i]
    if sources.n_layers[i]:
        cover = _covered((layer[0], layer[2]), (layer[1], layer[3]), (nx, ny), (cell_x, cell_y))
        each = sources.layers[i] / sources.n_layers[i] / (layer[2] * layer[3])
        for number in range(int(sources.n_layers[i])):
            power[len(plates) + number] += each * cover
    power[-1] += sources.dram[i] / (nx * ny)
    outside = (
        constants.air_kelvin_mm2_per_watt
        if cooling == "air"
        else constants.liquid_kelvin_mm2_per_watt
    )
    kelvin = _conducted(
        power, thickness, bonded_above, (cell_x, cell_y), constants.layer_kelvin_mm2_per_watt,
        outside,
    )  # fmt: skip
    # The heat enters at the lower face, half a cell below the middle.
    face = power[0] / (cell_x * cell_y) * thickness[0] / 2 / SILICON_WATTS_PER_MM_KELVIN
    return float(constants.ambient_celsius + (kelvin[0] + face).max())


def _covered(
    along: FloatPair, across: FloatPair, cells: tuple[int, int],
    size_mm: FloatPair,
) -> FloatArray:  # fmt: skip
    """(ny, nx) area that a rectangle covers of each cell."""
    shares = []
    for (begin, length), n, size in zip((along, across), cells, size_mm, strict=True):
        shares.append(np.diff(np.clip((np.arange(n + 1) * size), begin, begin + length)))
    return np.outer(shares[1], shares[0])


def _conducted(
    power: FloatArray, thickness: FloatArray, bonded_above: set[int],
    size_mm: FloatPair, bond: float, outside: float,
) -> FloatArray:  # fmt: skip
    """(nz, ny, nx) kelvin above the ambient: the conduction matrix, solved."""
    nz = len(power)
    (cell_x, cell_y), k = size_mm, SILICON_WATTS_PER_MM_KELVIN
    number = np.arange(power.size).reshape(power.shape)
    pairs = []
    for z in range(nz):
        layer = number[z]
        pairs.append((layer[:, :-1], layer[:, 1:], k * thickness[z] * cell_y / cell_x))
        pairs.append((layer[:-1], layer[1:], k * thickness[z] * cell_x / cell_y))
        if z + 1 < nz:
            resistance = (thickness[z] + thickness[z + 1]) / (2 * k)
            resistance += bond if z in bonded_above else 0.0
            pairs.append((layer, number[z + 1], cell_x * cell_y / resistance))
    first = np.concatenate([np.ravel(a) for a, _, _ in pairs])
    second = np.concatenate([np.ravel(b) for _, b, _ in pairs])
    value = np.concatenate([np.full(a.size, g) for a, _, g in pairs])
    diagonal = np.zeros(power.size)
    np.add.at(diagonal, first, value)
    np.add.at(diagonal, second, value)
    diagonal[number[-1].ravel()] += cell_x * cell_y / (outside + thickness[-1] / (2 * k))
    rows = np.concatenate([first, second, number.ravel()])
    columns = np.concatenate([second, first, number.ravel()])
    matrix = coo_matrix((np.concatenate([-value, -value, diagonal]), (rows, columns))).tocsc()
    return np.asarray(spsolve(matrix, power.ravel(), "MMD_AT_PLUS_A")).reshape(power.shape)


def imec_celsius(constants: Constants) -> float:
    """Temperature of a GPU below twelve layers of HBM that has 69.1 degC with HBM beside it."""
    area, n = np.array([800.0]), np.array([float(_LAYERS)])
    none = np.zeros(1)
    cooled = replace(constants_at("n7"), layer_kelvin_mm2_per_watt=(
        constants.layer_kelvin_mm2_per_watt
    ))  # fmt: skip
    one_watt = Sources({}, np.ones(1), none, none, none, none)
    per_watt = one_watt.mean_celsius(area, cooled, "liquid") - cooled.ambient_celsius
    gpu_watts = (_BESIDE - cooled.ambient_celsius) / per_watt
    hbm = load_library()["hbm3e_12h"]
    capacity, bandwidth = (hbm.value_at(name, "typical") for name in ("capacity", "bandwidth"))
    hbm_watts = 4 * (
        capacity * hbm.value_at("background_power", "typical")
        + bandwidth * hbm.value_at("read_energy", "typical")
    )
    stack = Sources({}, gpu_watts, np.array([hbm_watts]), n, none, none)
    return float(stack.mean_celsius(area, cooled, "liquid")[0])


def run(seed: int = 0, size: int | None = None) -> Study:
    """The study."""
    n = size or _SIZE
    constants = constants_at("n7")
    sources, placement = drawn_stacks(n, seed, constants)
    classes: tuple[Cooling, Cooling] = ("air", "liquid")
    ours = {
        cooling: temperatures(sources, placement, constants, cooling).hottest_celsius
        for cooling in classes
    }
    rows = []
    for i in range(n):
        cooling = classes[i % 2]
        solved = solved_celsius(sources, placement, i, constants, cooling)
        labels = {
            "what": f"stack {i + 1}, {int(sources.n_layers[i])} layers, {cooling}, degC",
            "layers": int(sources.n_layers[i]),
        }
        rows.append(comparison(labels, solved, float(ours[cooling][i]), kelvin=(
            float(ours[cooling][i]) - solved
        )))  # fmt: skip
    ends = [imec_celsius(constants_at("n7", level)) for level in ("low", "typical", "high")]
    imec = ranged_row(f"GPU below {_LAYERS} layers of HBM, degC", _ON_TOP, ends, _IMEC)
    apart = np.abs([row["kelvin"] for row in rows])
    return Study(
        name="heat",
        question="Hottest spots of drawn stacks against finite volumes, and imec's HBM on a GPU.",
        rows=[*rows, imec],
        summary=[summarize("stacks, degC", errors_of(rows))],
        targets=[
            count_promise(
                "stacks within 10 K of finite volumes",
                f"{n} of {n}",
                int((apart <= _WITHIN_KELVIN).sum()),
                n,
            ),
            count_promise(
                "imec's 141.7 degC within the range", "1 of 1", int(imec["is_within"]), 1
            ),
        ],
        notes=[
            f"largest difference {apart.max():.1f} K, median {np.median(apart):.1f} K",
            "imec: a GPU with even power that 40 K mm2/W cool to 69.1 degC beside its memories; on "
            "it 12 layers with the power of four stacks of HBM3E; the range is that of a bond",
        ],
    )

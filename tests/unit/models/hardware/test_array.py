"""Cycles of the array against loops over its blocks and a simulation of its registers."""

import itertools
import math

import numpy as np
import pytest

from codesign.models.hardware.array import (
    DATAFLOWS,
    ORGANIZATIONS,
    column_slots,
    filled_rows,
    flattened_cycles,
    ideal_cycles,
    padded_cycles,
    systolic_cycles,
)

SHAPES = [
    (1, 1, 1, 4, 2),
    (2, 4, 2, 4, 2),
    (3, 5, 7, 4, 2),
    (8, 8, 8, 4, 2),
    (9, 17, 5, 8, 4),
    (1, 64, 33, 16, 4),
    (5, 3, 6, 2, 8),
]


def multiply_by_blocks(
    a,
    b,
    depth,
    width,
    slots=1,
    is_padded=False,
):
    """The product on a flattened array: a cycle makes one column of ``width`` rows, ``depth``
    products deep, or ``slots`` columns side by side, for which it takes ``depth`` operands at most;
    padded, blocks have as many cycles as rows."""
    (m, k), n = a.shape, b.shape[1]
    product, cycles = np.zeros((m, n)), 0
    end = math.ceil(n / (slots * width)) * slots * width if is_padded else n
    for row, inner in itertools.product(range(0, m, width), range(0, k, depth)):
        rows, within = slice(row, row + width), slice(inner, inner + depth)
        for column in range(0, end, slots):
            cycles += 1
            operands = b[within, column : column + slots]
            assert operands.size <= depth
            product[rows, column : column + slots] += a[rows, within] @ operands
    return product, cycles


def slots_of(k, depth, organization, is_per_head):
    code = np.array(ORGANIZATIONS.index(organization))
    return float(column_slots(np.array(k), np.array(depth), code, np.array(is_per_head)))


def multiply_output_stationary(a, b):
    """One fold: operands march right and down through an R x C grid, then the sums drain."""
    (rows, steps), columns = a.shape, b.shape[1]
    sums, cycles = np.zeros((rows, columns)), 0
    right = np.zeros((rows, columns))
    down = np.zeros((rows, columns))
    done = 0
    while done < rows * columns * steps:
        right = np.roll(right, 1, axis=1)
        down = np.roll(down, 1, axis=0)
        for row in range(rows):
            step = cycles - row
            right[row, 0] = a[row, step] if 0 <= step < steps else 0.0
        for column in range(columns):
            step = cycles - column
            down[0, column] = b[step, column] if 0 <= step < steps else 0.0
        sums += right * down
        busy = [
            0 <= cycles - row - column < steps
            for row, column in itertools.product(range(rows), range(columns))
        ]
        done += sum(busy)
        cycles += 1
    return sums, cycles + rows  # one row leaves at a time


def multiply_weight_stationary(a, b):
    """One fold: (R x C) weights are loaded row by row, inputs march right, sums march down."""
    (steps, rows), columns = a.shape, b.shape[1]
    product = np.full((steps, columns), np.nan)
    inputs, sums = np.zeros((rows, columns)), np.zeros((rows, columns))
    cycle = 0
    while np.isnan(product).any():
        inputs = np.roll(inputs, 1, axis=1)
        for row in range(rows):
            step = cycle - row
            inputs[row, 0] = a[step, row] if 0 <= step < steps else 0.0
        above = np.vstack([np.zeros(columns), sums[:-1]])
        sums = above + inputs * b
        for column in range(columns):
            step = cycle - (rows - 1) - column
            if 0 <= step < steps:
                product[step, column] = sums[-1, column]
        cycle += 1
    return product, rows + cycle


@pytest.mark.parametrize(("m", "k", "n", "depth", "width"), SHAPES)
def test_a_flattened_array_takes_the_cycles_of_its_blocks(m, k, n, depth, width):
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k)), rng.random((k, n))
    for is_padded, formula in ((False, flattened_cycles), (True, padded_cycles)):
        product, cycles = multiply_by_blocks(a, b, depth, width, is_padded=is_padded)
        np.testing.assert_allclose(product, a @ b)
        assert float(formula(m, k, n, depth, width)) == cycles


@pytest.mark.parametrize("rows", [1, 4, 6, 24])
@pytest.mark.parametrize("n", [1, 10, 16, 17, 100])
@pytest.mark.parametrize(("head_size", "slots"), [(3, 5), (4, 4), (8, 2), (16, 1), (40, 1)])
def test_positions_share_the_depth_of_the_array(rows, n, head_size, slots):
    rng = np.random.default_rng(0)
    queries, keys = rng.random((rows, head_size)), rng.random((head_size, n))
    assert slots_of(head_size, 16, "flattened", True) == slots
    for is_padded, formula in ((False, flattened_cycles), (True, padded_cycles)):
        scores, cycles = multiply_by_blocks(queries, keys, 16, 4, slots, is_padded)
        np.testing.assert_allclose(scores, queries @ keys)
        assert float(formula(rows, head_size, n, 16, 4, slots)) == cycles


@pytest.mark.parametrize("k", [8, 128, 576, 90_000])
@pytest.mark.parametrize("n_products", [1.0, 3.0, 8.0])
def test_a_wider_or_deeper_array_is_never_slower(k, n_products):
    m, n = np.array([1, 7, 8, 64, 100, 9000]), 130
    widths, depths = [8, 12, 16, 64, 96, 512], [512, 768, 1024, 1536, 8192]
    cycles = np.array(
        [
            [
                flattened_cycles(
                    m, k, n * n_products, depth, width, slots_of(k, depth, "flattened", True)
                )
                for width in widths
            ]
            for depth in depths
        ]
    )
    assert (np.diff(cycles, axis=0) <= 0).all()
    assert (np.diff(cycles, axis=1) <= 0).all()
    ideal = m * k * n * n_products / (np.array(depths)[:, None, None] * np.array(widths)[:, None])
    assert (cycles >= ideal * (1 - 1e-12)).all()


def test_rows_without_data_are_told_from_filled_ones():
    rows = np.array([1.0, 16.0, 64.0, 65.0, 128.0])
    np.testing.assert_allclose(filled_rows(rows, np.array(64.0)), [1 / 64, 0.25, 1, 65 / 128, 1])


def test_only_heads_share_the_depth_and_not_in_a_systolic_grid():
    assert slots_of(128, 2048, "flattened", True) == slots_of(128, 2048, "ideal", True) == 16
    assert slots_of(128, 2048, "flattened", False) == slots_of(128, 2048, "systolic", True) == 1
    assert slots_of(0, 2048, "flattened", False) == 1  # no product


def test_decode_scores_take_the_time_to_stream_the_keys():
    # Eight query heads of 128 share 94,208 keys: 2048 x 64, sixteen keys a cycle.
    assert float(flattened_cycles(8, 128, 94_208, 2048, 64, 16)) == 128 * 94_208 / 2048


def test_plena_streams_a_full_block_at_one_multiply_accumulate_per_unit_and_cycle():
    # MemExplorer's Base, 2048 x 128: whole blocks leave no unit idle.
    cycles = float(flattened_cycles(1280, 8192, 2560, 2048, 128))
    assert cycles == float(ideal_cycles(1280, 8192, 2560, 2048, 128))
    assert cycles == 1280 * 8192 * 2560 / (2048 * 128)


def test_a_single_row_takes_the_time_to_stream_the_weights():
    assert float(flattened_cycles(1, 8192, 28672, 2048, 128)) == 8192 * 28672 / 2048


@pytest.mark.parametrize(("rows", "columns", "steps"), [(1, 1, 1), (2, 3, 4), (4, 2, 7), (5, 5, 1)])
def test_one_output_stationary_fold_takes_what_its_registers_take(rows, columns, steps):
    rng = np.random.default_rng(0)
    a, b = rng.random((rows, steps)), rng.random((steps, columns))
    product, cycles = multiply_output_stationary(a, b)
    np.testing.assert_allclose(product, a @ b)
    assert float(systolic_cycles(rows, steps, columns, rows, columns, "os", "shifted")) == cycles
    # Sums that leave as they are finished spare the R cycles of shifting.
    assert float(systolic_cycles(rows, steps, columns, rows, columns, "os")) == cycles - rows


@pytest.mark.parametrize(("rows", "columns", "steps"), [(1, 1, 1), (2, 3, 4), (4, 2, 7), (5, 5, 1)])
def test_one_weight_or_input_stationary_fold_takes_what_its_registers_take(rows, columns, steps):
    rng = np.random.default_rng(0)
    a, b = rng.random((steps, rows)), rng.random((rows, columns))
    product, cycles = multiply_weight_stationary(a, b)
    np.testing.assert_allclose(product, a @ b)
    assert float(systolic_cycles(steps, rows, columns, rows, columns, "ws")) == cycles
    # Inputs in the grid are weights in the grid of the transposed product.
    assert float(systolic_cycles(columns, rows, steps, rows, columns, "is")) == cycles


@pytest.mark.parametrize(
    ("dataflow", "cycles"),
    [
        ("os", (2 * 8 + 8 + 32 - 2) * 2 * 3),  # 16 x 24 results, 32 deep
        ("ws", (2 * 8 + 8 + 16 - 2) * 4 * 3),  # 32 x 24 weights, 16 rows stream
        ("is", (2 * 8 + 8 + 24 - 2) * 4 * 2),  # 32 x 16 inputs, 24 columns stream
    ],
)
def test_folds_of_a_product_follow_scale_sims_formula(dataflow, cycles):
    assert float(systolic_cycles(16, 32, 24, 8, 8, dataflow, "shifted")) == cycles


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_a_fold_that_sticks_out_by_one_costs_a_whole_one(dataflow):
    assert float(systolic_cycles(9, 9, 9, 8, 8, dataflow, "shifted")) == 4 * (2 * 8 + 8 + 9 - 2)


def test_no_organization_beats_the_ideal_array():
    rng = np.random.default_rng(0)
    m, k, n = (np.floor(10 ** rng.uniform(0, 4, 500)) for _ in range(3))
    depth, width = 2.0 ** rng.integers(2, 9, 500), 2.0 ** rng.integers(2, 9, 500)
    ideal = ideal_cycles(m, k, n, depth, width)
    assert (flattened_cycles(m, k, n, depth, width) >= ideal).all()
    for dataflow in DATAFLOWS:
        assert (systolic_cycles(m, k, n, depth, width, dataflow) >= ideal).all()


def test_cycles_are_whole_and_never_fall_as_the_product_grows():
    sizes = np.arange(1.0, 200.0)
    for cycles in (
        flattened_cycles(sizes, 100.0, 100.0, 32.0, 16.0),
        flattened_cycles(100.0, sizes, 100.0, 32.0, 16.0),
        flattened_cycles(100.0, 100.0, sizes, 32.0, 16.0),
    ):
        assert all(math.floor(value) == value for value in cycles)
        assert (np.diff(cycles) >= 0).all()

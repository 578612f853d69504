"""Published chips as designs of the space ``accelerator``, beside what was measured of them.

For operands of 8 bits a chip is the design that the space states, at the clock that its power limit
sustains. For 16 bits its array is half as deep, and as fast as the datasheet says. A GPU has no
pipeline for softmax: each of six operations takes a lane and a cycle, between the products. No
constant is fitted to the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import yaml

from codesign.base.columns import FloatArray, JsonObject, design_columns
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.models.hardware.power import board_joules_per_token
from codesign.models.memtech import load_library
from codesign.models.workload import Request, load_model
from codesign.space import load_space
from validation.studies.kernel_table import read_kernel_table
from validation.studies.kernels import family_of
from validation.studies.measured_card import card_rows
from validation.studies.study import (
    DATA,
    Study,
    comparison,
    grouped_errors,
    median_promise,
    summarize,
)

TARGET = 0.2
"""Median error that is promised."""
SHORTEST_S = 50e-6
"""Least roofline of a kernel that is compared."""
_LAYERS = 100
"""Layers of a model, of which no cache holds the operands."""
_METRICS = ("energy_joules_per_token", "offchip_bytes_per_token", "tdp_watts",
            "throughput_tokens_per_s")  # fmt: skip
_DESIGNS = load_space("accelerator", {"memtech": load_library().catalog()}).designs
KERNELS, CHIPS, LOOPS, _BYTE_JOULES, _LIMIT_WATTS, _NOTES = yaml.safe_load(
    (DATA / "silicon.yaml").read_text("utf-8")
).values()


def run() -> Study:
    """Compare products and attention of three chips, and the watts of one board."""
    rows = [*_kernel_rows(), *watts_rows()]
    groups = grouped_errors(rows)
    return Study(
        "silicon",
        "Kernels and watts of published chips, described as designs of the space accelerator.",
        rows,
        [summarize(group, errors) for group, errors in groups.items()],
        [median_promise(group, TARGET, errors) for group, errors in groups.items()],
        _NOTES,
    )


def kernel_cost(chip: str, operator: str, sizes: Mapping[str, Any]) -> FloatArray:
    """(3,) seconds, joules and off-chip bytes of a kernel.

    Args:
        chip: Chip and format, such as ``H100 bf16``.
        sizes: By the column of a table of kernels.
    """
    kernel, changes = KERNELS[operator], CHIPS[chip]
    dims, counts = (
        {key: int(sizes[name]) for key, name in kernel[part].items()} for part in ("dims", "counts")
    )
    request = Request(**kernel["request"], **counts)
    request.__dict__["language_model"] = load_model(request.model).model_copy(
        update={"num_hidden_layers": _LAYERS, **dims}
    )
    design = {**_DESIGNS[changes["design"]], **changes}
    options = NpuOptions(vector="serial", softmax="unpipelined")
    columns = design_columns({**design, "pe_array": tuple(design["pe_array"])})
    rows: Any = NpuEvaluator(request, options).explain(columns).operators
    costs = [
        (row["time_s"], row["energy_joules"], row["traffic_bytes"]["tier1"])
        for row in rows
        if row["name"] in kernel["operators"]
    ]
    return np.asarray(np.sum(costs, axis=0) / _LAYERS * int(sizes.get(kernel["sequences"], 1)))


def _kernel_rows() -> Iterator[JsonObject]:
    for operator, kernel in KERNELS.items():
        table = read_kernel_table().operator_rows([operator])
        formats, family = table.words("activation_dtype"), family_of(operator.partition("_")[0])
        chips = np.strings.add(np.strings.add(table.words("device"), " "), formats)
        is_compared = np.isin(chips, list(CHIPS)) & family.corrects(table)
        is_compared &= (table.words(kernel["operands"]) == formats) & ~(table["window"] > 0)
        is_compared &= family.roofline_s(table) >= SHORTEST_S
        is_compared &= ~(table["input_tokens"] < kernel["fewest_tokens"])
        for i in np.flatnonzero(is_compared):
            sizes = {name: texts[i] for name, texts in table.text.items()}
            labels = {
                "what": f"{sizes['id']} {chips[i]}, s",
                "group": f"{kernel['title']}, {sizes['device']}",
            }
            ours = kernel_cost(str(chips[i]), operator, sizes)[0]
            yield comparison(labels, float(sizes["latency_s"]), ours)


def watts_rows() -> Iterator[JsonObject]:
    """Watts of loops on one H100, in the seconds that were measured."""
    for row in card_rows("power"):
        loop, rate = LOOPS[row["what"]], 1e6 / float(row["median_us"] or 1e6)
        is_kernel = isinstance(loop, list)
        _, *work = kernel_cost(*loop) if is_kernel else (0.0, loop * _BYTE_JOULES, loop)
        metrics = dict(zip(_METRICS, np.array([*work, _LIMIT_WATTS, rate]), strict=True))
        yield comparison(
            {"what": f"{row['what']}, W", "group": "watts of a board, H100"},
            float(row["watts_average_mean"]),
            min(float(board_joules_per_token(metrics)) * rate, _LIMIT_WATTS),
        )

"""Measured kernels beside our laws, by device and kernel, and beside a bare roofline.

The constants are fitted to the same table, and so are the corrections of measured chips. How far
corrections carry is shown by those that have not seen a row's geometry on any device; how far laws
carry, by fits that have not seen a row's device, with or without others of its chip: what a
reader's own device is to us.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from codesign.base.columns import (
    Arrays,
    Fields,
    FloatArray,
    JsonRows,
    StringArray,
    StringList,
    Strings,
)
from codesign.base.errors import InputError
from validation.studies import attention_blocks
from validation.studies.kernel_families.correcting import cross_validated_s
from validation.studies.kernel_families.family import KernelFamily
from validation.studies.kernel_table import (
    KERNELS_FILE,
    KernelTable,
    joined,
    read_kernel_table,
)
from validation.studies.operator_rows import read_operator_rows
from validation.studies.study import (
    Study,
    comparison,
    count_promise,
    median_promise,
    summarize,
)

FAMILIES = ("gemm", "attention", "mla", "mla_bmm", "scan", "experts", "elementwise", "collectives",
            "expert_exchange")  # fmt: skip
"""Modules of ``kernel_families``."""


def family_of(name: str) -> KernelFamily[Any]:
    """The family of that name."""
    module = import_module(f"validation.studies.kernel_families.{name}")
    family: KernelFamily[Any] = module.FAMILY
    return family


def run() -> Study:
    """Compare every kernel of the shipped table with predictions that have not seen it.

    Those on its own chip have not seen its geometry, those without its device have corrections of
    other devices of its chip, if there are such, and those without its chip are the law alone.
    """
    table, reasons = measured_kernels()
    return study_of(table, reasons, has_folds=True)


def compare(path: Path | str = KERNELS_FILE) -> Study:
    """Any table of measured kernels beside shipped predictions, with corrections; no fit.

    Args:
        path: A table with the columns of ``kernels_measured.csv.gz``.

    Raises:
        InputError: The table cannot be read.
    """
    return study_of(read_kernel_table(path), (), has_folds=False)


@cache
def measured_kernels() -> tuple[KernelTable, StringList]:
    """All kernels to which constants are fitted, and why other measured ones are no rows."""
    others, reasons = read_operator_rows()
    return joined(read_kernel_table(), others), reasons


def study_of(table: KernelTable, omitted: Strings, has_folds: bool) -> Study:
    """Rows of a table beside predictions.

    Args:
        omitted: Why others are no rows of it.
        has_folds: Whether rows were fitted to, so that predictions leave their geometry out, and
            in further columns their device and its chip.
    """
    rows: list[Fields] = []
    summary: JsonRows = []
    targets: JsonRows = []
    reasons: Counter[str] = Counter(omitted)
    predicted = [_predicted_family(name, table, reasons, has_folds) for name in FAMILIES]
    # Whole blocks of attention, to which nothing is fitted.
    for name, operators in attention_blocks.OPERATORS.items():
        blocks = table.operator_rows(operators)
        refusals = attention_blocks.left_out(blocks)
        reasons.update(reason for reason in refusals.tolist() if reason)
        blocks = blocks.take(refusals == "")
        predicted.append((name, attention_blocks.TARGET, blocks, attention_blocks.predict(blocks)))
    for name, limit, family_rows, predictions in predicted:
        if len(family_rows):
            rows += _rows(name, family_rows, predictions)
            summary += _summaries(family_rows, predictions)
            targets += _targets(name, limit, family_rows, predictions)
    targets += _roofline_targets(summary)
    known_chain = set(
        chain(
            *[family_of(name).operators for name in FAMILIES], *attention_blocks.OPERATORS.values()
        )
    )
    for operator in sorted({*table.words("operator").tolist()} - known_chain):
        count = int((table.words("operator") == operator).sum())
        reasons[f"operator {operator} is not modeled"] += count
    return Study(
        name="kernels",
        question="How far are the laws of kernels from kernels that others measured?",
        rows=rows,
        summary=summary,
        targets=targets,
        notes=(
            *[f"{count:,} rows left out: {reason}." for reason, count in reasons.most_common()],
            *((*_NOTES, _FOLDS) if has_folds else _NOTES),
        ),
    )


_Predicted: TypeAlias = tuple[str, float, KernelTable, Arrays]
"""Name of some kernels, the promised error, their rows, and (q,) seconds by how they came about."""


def _predicted_family(
    name: str, table: KernelTable, reasons: Counter[str], has_folds: bool
) -> _Predicted:
    family = family_of(name)
    family_rows = table.operator_rows(family.operators)
    if not len(family_rows):
        return name, family.target, family_rows, {}
    reasons.update(reason for reason in family.left_out(family_rows).tolist() if reason)
    predictions = {"law": family.predict(family_rows), "roofline": family.roofline_s(family_rows)}
    if has_folds:
        predictions["ours"] = cross_validated_s(family, family_rows)
        if family.case is not None:
            predictions["framework held out"] = cross_validated_s(
                family, family_rows, fold_of_row=family_rows.words("framework")
            )
        predictions["device held out"] = _held_out(family, family_rows, device_keys(family_rows))
        predictions["chip held out"] = _held_out(family, family_rows, chip_names(family_rows))
    else:
        predictions["ours"] = family.corrected_s(family_rows)
    return name, family.target, family_rows, predictions


def _held_out(family: KernelFamily[Any], table: KernelTable, names: StringArray) -> FloatArray:
    """(q,) seconds by constants and corrections that were fitted without the rows of its name.

    Corrections are those of other devices of the row's chip, without its geometry.
    """
    seconds = table.missing()
    for name in sorted(set(names.tolist())):
        is_tested = names == name
        try:
            constants = family.fit(table.take(~is_tested))
        except InputError:  # no other device was measured
            continue
        seconds[is_tested] = cross_validated_s(family, table, ~is_tested, constants)[is_tested]
    return seconds


def chip_names(table: KernelTable) -> StringArray:
    """(q,) names of the devices' chips; that of the device where it is not known."""
    return _device_words(table, "measured_name")


def device_keys(table: KernelTable) -> StringArray:
    """(q,) keys of the devices, which several names may have; the name where it is not known."""
    return _device_words(table, "key")


def _device_words(table: KernelTable, field: str) -> StringArray:
    pairs = zip(table.devices, table.words("device").tolist(), strict=True)
    return np.array([getattr(device, field, name) for device, name in pairs], dtype=np.str_)


def relative_errors(table: KernelTable, seconds: FloatArray) -> FloatArray:
    """(q,) relative errors of predicted times; NaN where there is none."""
    return seconds / table["latency_s"] - 1.0


def _rows(family: str, table: KernelTable, predictions: Arrays) -> JsonRows:
    errors = {name: relative_errors(table, seconds) for name, seconds in predictions.items()}
    words = {name: table.words(name) for name in ("id", "operator", "framework")}
    keys = device_keys(table).tolist()
    columns = zip(
        table.words("weight_dtype"),
        table.words("activation_dtype"),
        table.words("kv_dtype"),
        strict=True,
    )
    formats = [" ".join(dict.fromkeys(str(word) for word in row if word)) for row in columns]
    return [
        comparison(
            {
                "what": f"{words['id'][i]} {words['operator'][i]}",
                "group": family,
                "operator": str(words["operator"][i]),
                "device": keys[i],
                "format": formats[i],
                "framework": str(words["framework"][i]),
            },
            measured,
            predictions["ours"][i],
            **{
                key: float(errors[name][i])
                for name, key in _COLUMNS.items()
                if name in errors and name != "roofline"
            },
            roofline=float(predictions["roofline"][i]),
        )
        for i, measured in enumerate(table["latency_s"])
        if not np.isnan(errors["ours"][i])
    ]


def _summaries(table: KernelTable, predictions: Arrays) -> JsonRows:
    summary = []
    operators, devices = table.words("operator"), device_keys(table)
    for operator in dict.fromkeys(operators.tolist()):
        for device in sorted(set(devices[operators == operator].tolist())):
            is_selected = (operators == operator) & (devices == device)
            errors = {
                name: relative_errors(table, seconds)[is_selected]
                for name, seconds in predictions.items()
            }
            is_known = ~np.isnan(errors["ours"])
            if not is_known.any():
                continue
            row = summarize(f"{operator}, {device}", errors["ours"][is_known])
            for name, key in _COLUMNS.items():
                others = errors.get(name, np.full(len(is_known), np.nan))[is_known]
                others = others[~np.isnan(others)]
                median = float(np.median(np.abs(others))) if len(others) else None
                row[f"{key}_absolute_error"] = median
            summary.append(row)
    return summary


def _targets(name: str, limit: float, table: KernelTable, predictions: Arrays) -> JsonRows:
    targets = []
    unseen = "geometry held out" if "device held out" in predictions else "shipped predictions"
    names = {"ours": unseen, "device held out": "device held out, others of its chip kept"}
    for how, words in (names | {"chip held out": "chip held out"}).items():
        if how not in predictions:
            continue
        errors = relative_errors(table, predictions[how])
        errors = errors[~np.isnan(errors)]
        if len(errors):
            targets.append(median_promise(f"{name.replace('_', ' ')}, {words}", limit, errors))
    return targets


def _roofline_targets(summary: JsonRows) -> JsonRows:
    """Numbers of kernels by device of which predictions are nearer than rooflines."""
    targets = []
    for column, words in _BESIDE_ROOFLINES.items():
        judged = [
            row[column] <= row["roofline_absolute_error"]
            for row in summary
            if row.get(column) is not None
        ]
        if judged:
            subject = f"kernels by device, {words} at least as near as a bare roofline"
            targets.append(count_promise(subject, "all", sum(judged), len(judged)))
    return targets


_BESIDE_ROOFLINES = {
    "median_absolute_error": "predictions",
    "law_absolute_error": "laws alone",
    "held_out_absolute_error": "with the device held out",
}
"""Columns of the summary that are compared with the bare roofline's."""
_COLUMNS = {
    "law": "law",
    "roofline": "roofline",
    "framework held out": "framework_held_out",
    "device held out": "held_out",
    "chip held out": "chip_held_out",
}
"""Columns of the summary beside ours, by prediction."""
_NOTES = (
    "Measured by NVIDIA (ai-dynamo/aiconfigurator at 095f58a, Apache-2.0): the fastest of several "
    "frameworks and versions, in loops of CUDA graphs; host launch costs are absent.",
    "Some of A100s by Vidur (microsoft/vidur, MIT), starts by a full queue included.",
    "Constants are shared by all GPUs. Corrections of products, attention and experts are of the "
    "chip that was measured: sizes are corrected by what similar sizes took of the law's time.",
    "The roofline is the larger of arithmetic over the datasheet's peak and bytes over its "
    "bandwidth. GenZ times an operator so, over shares of both that its user states (study "
    "requests); LLMCompass is on no package index and was not run.",
    "Blocks of attention are sums of kernels as platform puts them together; nothing is fitted to "
    "them. Those of L40S and, with sparse attention, of vLLM have kernels that others replaced.",
)
_FOLDS = (
    "Errors are of corrections fitted without the row's geometry on any device, in five parts: "
    "weight shapes of products, heads of attention, layers of experts, single shapes elsewhere; "
    "'law alone' has none, nor have the other families. 'Framework held out' has corrections from "
    "other frameworks alone. 'Device held out' is a fit to all rows of "
    "the other devices, corrected by other devices of the same chip (H100 and H200, A100 on SXM and"
    " PCIe) without the row's geometry; 'chip held out' is a fit to all rows of other chips, "
    "without corrections. Neither is quite unseen: starts of kernels that device files state were "
    "measured on the device, and what latent attention takes from attention, and the exchange of "
    "tokens from collectives, is of all devices."
)

"""What one pass asks of any machine: operations, bytes and dispatches, operator by operator."""

from __future__ import annotations

import numpy as np

from codesign.evaluators.forecast.conventions import NORMS, Profile
from codesign.evaluators.forecast.life import LifeCount
from codesign.evaluators.forecast.operator_work import CLASSES, QUANTITIES, PassWork
from codesign.evaluators.forecast.plain import PlainCount
from codesign.evaluators.forecast.variants import Variant
from codesign.workload.model import LanguageModel
from codesign.workload.operator_rules import Role
from codesign.workload.operators import OperatorTable


def characterize(
    table: OperatorTable,
    model: LanguageModel,
    variant: Variant,
    profile: Profile,
    *,
    past_tokens: float,
    batch_size: int,
    tile: int,
) -> PassWork:
    """The work of one pass under a profile's conventions.

    Limiting assumption: nothing but what fusion keeps stays on chip from operator to operator.

    Args:
        table: The pass, lowered; under ``life`` as a prefill of its tokens.
        variant: Formats, fusion and the rest.
        profile: ``plain`` or ``life``.
        past_tokens: Tokens in the cache before the pass.
        batch_size: Requests processed together.
        tile: The sizes of attention's products are rounded up to multiples of this (LIFE
            §5.4.1); padding costs operations, not traffic.
    """
    counted = LifeCount if profile == "life" else PlainCount
    columns = counted(table, model, variant, float(past_tokens), batch_size, tile).columns()
    values = np.stack([columns[name] for name in QUANTITIES]) * table.count
    classes = tuple(
        _class_of(rule.role, kind) for rule, kind in zip(table.rules, table.kinds, strict=True)
    )
    return PassWork(table.names, classes, table.groups, table.rules, values)


def _class_of(role: Role, kind: str) -> str:
    known = {"gemm": "linear", "attention_qk": "bmm", "attention_pv": "bmm",
             "linear_attention": "bmm", "gather": "embedding"}  # fmt: skip
    if kind in known:
        return known[kind]
    if role in NORMS:
        return "norm"
    return role if role in CLASSES else "elementwise"

"""Roles of pools, and the requests that each serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from codesign.base.columns import Fields
from codesign.base.errors import InputError
from codesign.base.evaluator import PoolDescription
from codesign.base.records import frozen
from codesign.evaluators.system.workload import SystemWorkload
from codesign.models.workload.request import LayerPart
from codesign.models.workload.storage import active_parameter_count

StageName = Literal["prefill", "decode", "early", "late", "draft"]


@frozen
class StageRequest:
    """A part of every request's way through the system.

    Attributes:
        phase: Whether its machines prefill or decode.
        prompt_tokens: Tokens that stand in the cache before its first one.
        generated_tokens: Tokens that a decode stage generates; in a prefill, those of the answer.
        prompt_work: Work of a prompt, as a multiple of the model's. A draft model adds the ratio of
            its active weights to the model's.
    """

    name: StageName
    phase: Literal["prefill", "decode"]
    prompt_tokens: int
    generated_tokens: int
    prompt_work: float = 1.0

    @property
    def tokens(self) -> float:
        """Tokens of a request that the stage's throughput counts, in a prefill by their work."""
        if self.phase == "decode":
            return self.generated_tokens
        return self.prompt_tokens * self.prompt_work

    @property
    def cached_tokens(self) -> int:
        """Tokens whose keys and values a request takes to the next stage."""
        return self.prompt_tokens + (self.generated_tokens if self.phase == "decode" else 0)


@frozen
class PoolTask:
    """Task of the machines of a pool.

    Attributes:
        stage: The part of every request's way.
        keys: Keys of a request to the machines, except numbers of tokens.
        layers: The part of every layer, or of a decode with drafted tokens: ``attention`` checks
            them and has the KV cache, ``ffn`` drafts.
    """

    stage: StageRequest
    keys: Fields
    layers: LayerPart = "all"


_WAYS: Mapping[str, Sequence[Mapping[str, tuple[StageName, LayerPart]]]] = {
    "prefill": (
        {"prefill": ("prefill", "all")},
        {"prefill_attention": ("prefill", "attention"), "prefill_ffn": ("prefill", "ffn")},
    ),
    "decode": (
        {"decode": ("decode", "all")},
        {"early": ("early", "all"), "late": ("late", "all")},
        {"decode_attention": ("decode", "attention"), "decode_ffn": ("decode", "ffn")},
    ),
    "drafted decode": ({"decode": ("decode", "attention"), "draft": ("draft", "ffn")},),
}
"""Sets of roles that can serve each phase, with the stage and part of the layers of each."""


def pool_tasks(workload: SystemWorkload, pools: Sequence[PoolDescription]) -> dict[str, PoolTask]:
    """Task of each pool by its name, in the order in which a request passes them.

    Args:
        workload: What is asked of the system.

    Raises:
        InputError: A phase of the workload has no pool, or too many, or a pool has no work.
    """
    prompt = workload.tokens.prompt_tokens
    generated = workload.tokens.generated_tokens
    drafting = workload.drafting
    n = drafting.n_drafted
    rounds = 1.0 / drafting.tokens_per_verification
    drafted: dict[str, Fields] = {
        "decode": {"layers": "all", "checked_tokens": n + 1, "steps_per_token": rounds},
        "draft": {"layers": "all", "model": workload.draft, "steps_per_token": n * rounds},
    }
    active = [active_parameter_count(model) for model in drafting.models]
    early = min(max(round(generated * workload.early_share), 1), generated - 1)
    stages = {
        "prefill": StageRequest("prefill", "prefill", prompt, generated, sum(active) / active[0]),
        "decode": StageRequest("decode", "decode", prompt, generated),
        "early": StageRequest("early", "decode", prompt, early),
        "late": StageRequest("late", "decode", prompt + early, generated - early),
        "draft": StageRequest("draft", "decode", prompt, generated),
    }
    by_role = {pool.role: pool.name for pool in pools}
    tasks = {}
    for phase in workload.phases:
        ways = _WAYS["drafted decode" if n and phase == "decode" else phase]
        serving = [way for way in ways if set(way) <= set(by_role)]
        if len(serving) != 1:
            expected = " or ".join(" and ".join(way) for way in ways)
            got = ", ".join(by_role) or "none"
            raise InputError(
                f"expected the roles {expected} for the {phase}, got {got}", key=("pools",)
            )
        for role, (stage, layers) in serving[0].items():
            keys = {"model": workload.model, "layers": layers, **drafted.get(role, {})}
            tasks[by_role[role]] = PoolTask(stages[stage], keys, layers)
    idle = [pool for pool in pools if pool.name not in tasks]
    if idle:
        raise InputError(
            f"the workload has nothing for the role {idle[0].role!r}; its phases are "
            f"{' and '.join(workload.phases)}",
            key=("pools", idle[0].name),
        )
    if any(task.stage.generated_tokens < 1 for task in tasks.values()):
        raise InputError("early and late need at least two generated tokens")
    return tasks

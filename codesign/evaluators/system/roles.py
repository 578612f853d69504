"""What the machines of a pool do, and what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from codesign.errors import InputError
from codesign.evaluators.base import PoolDescription
from codesign.evaluators.system.workload import SystemWorkload

StageName: TypeAlias = Literal["prefill", "decode", "early", "late"]


@dataclass(frozen=True)
class StageRequest:
    """A part of every request's way through the system.

    Attributes:
        name: Of the stage.
        phase: Whether its machines prefill or decode.
        prompt_tokens: Tokens that stand in the cache before its first one.
        generated_tokens: Tokens that a decode stage generates; in a prefill, those of the answer.
    """

    name: StageName
    phase: Literal["prefill", "decode"]
    prompt_tokens: int
    generated_tokens: int

    @property
    def tokens(self) -> int:
        """Tokens of a request that the stage's throughput counts."""
        return self.prompt_tokens if self.phase == "prefill" else self.generated_tokens

    @property
    def cached_tokens(self) -> int:
        """Tokens whose keys and values a request takes to the next stage."""
        return self.prompt_tokens + (self.generated_tokens if self.phase == "decode" else 0)


def stage_requests(workload: SystemWorkload, roles: Sequence[str]) -> list[StageRequest]:
    """The stages of a workload, in the order in which a request passes them.

    Args:
        workload: What is asked of the system.
        roles: The roles of its pools.

    Raises:
        InputError: A phase of the workload has no pool, or too many, or a pool has no work.
    """
    prompt, generated = workload.tokens.prompt_tokens, workload.tokens.generated_tokens
    early = min(max(round(generated * workload.early_share), 1), generated - 1)
    stages = {
        "prefill": StageRequest("prefill", "prefill", prompt, generated),
        "decode": StageRequest("decode", "decode", prompt, generated),
        "early": StageRequest("early", "decode", prompt, early),
        "late": StageRequest("late", "decode", prompt + early, generated - early),
    }
    ways = {"prefill": [["prefill"]], "decode": [["decode"], ["early", "late"]]}
    listed = set(roles)
    passed: list[StageRequest] = []
    for phase in workload.phases:
        served = [way for way in ways[phase] if set(way) <= listed]
        if len(served) != 1:
            expected = " or ".join(f"roles {' and '.join(way)}" for way in ways[phase])
            got = ", ".join(roles) or "none"
            raise InputError(f"pools: expected {expected} for the {phase}, got {got}")
        passed += [stages[name] for name in served[0]]
    idle = listed - {stage.name for stage in passed}
    if idle:
        wanted = " and ".join(workload.phases)
        raise InputError(
            f"pools: {', '.join(sorted(idle))}: the workload has nothing for this role; its phases "
            f"are {wanted}"
        )
    if any(stage.generated_tokens < 1 for stage in passed):
        raise InputError("early and late need at least two generated tokens")
    return passed


def pools_of(
    stages: Sequence[StageRequest], pools: Sequence[PoolDescription]
) -> Mapping[StageName, PoolDescription]:
    """The pool of each stage."""
    by_role = {pool.role: pool for pool in pools}
    return {stage.name: by_role[stage.name] for stage in stages}

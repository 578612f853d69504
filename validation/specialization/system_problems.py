"""The problems whose exact fronts are compared: systems of two designs, and of one."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from codesign import api
from codesign.base import resources
from codesign.base.columns import Value
from codesign.base.schema import read_document
from codesign.evaluators.system import SystemEvaluator
from codesign.evaluators.system.pool_links import LINK_PARAMETERS, OPTIONAL_LINK_PARAMETERS
from codesign.evaluators.system.uniform_system import UniformSystem
from codesign.models.memtech import load_library
from codesign.search.problem import Problem
from codesign.search.problem_builder import build_problem, with_pools_of
from codesign.space import DesignSpace, parse_space

Kind: TypeAlias = Literal["specialized", "one-machine", "one-design", "turns"]
KINDS: Mapping[Kind, str] = {
    "specialized": "a design for each phase",
    "one-machine": "one machine, software for each phase",
    "one-design": "one machine and software",
    "turns": "one machine that takes turns",
}
"""Kinds of systems, and what they are called."""
SPACE = "system-pd"
"""Both of its pools are of one space, with the same numbers; each link is one."""
POOLS = ("prefill", "decode")
OBJECTIVES = ("maximize throughput_tokens_per_s", "minimize tdp_watts")
SOFTWARE = ("storage_priority", "dataflow", "bandwidth_priority")
"""Parameters that a compiler sets (MemExplorer section 4.2); the rest is hardware and formats."""
EIGHT_BITS: tuple[tuple[str, str], ...] = (
    ("weight_format", "mxint8"),
    ("activation_format", "mxint8"),
    ("kv_format", "mxint8"),
)
"""Formats of the campaigns ``osworld-*``."""


@dataclass(frozen=True)
class SystemSetting:
    """Common setting of all compared systems; must survive pickling.

    Attributes:
        trace: Tokens of a request.
        limit_watts: On the TDP of a system.
        most_machines: Of a role; None: as the space has it.
        fixed: Parameters of a machine with one value.
    """

    trace: str
    model: str = "llama-3.3-70b"
    limit_watts: float = 2800.0
    most_machines: int | None = None
    fixed: tuple[tuple[str, Value], ...] = EIGHT_BITS


def problem_of(setting: SystemSetting, kind: Kind) -> Problem:
    """The search for the best systems of a kind.

    Raises:
        InputError: A model, trace or value that is not known.
    """
    space, evaluator = _of_pools(setting)
    limits = [f"tdp_watts <= {setting.limit_watts!r}"]
    if kind == "specialized":
        return build_problem(space, evaluator, OBJECTIVES, limits, "system")
    uniform_space, uniform = _of_one(setting, kind, space, evaluator)
    return build_problem(uniform_space, uniform, OBJECTIVES, limits, "uniform system")


def _of_pools(setting: SystemSetting) -> tuple[DesignSpace, SystemEvaluator]:
    """Systems of two pools."""
    data = _space_data(setting)
    space = parse_space(json.dumps(data), _catalogs(), SPACE)
    space = space.fix({f"{pool}_{name}": x for pool in POOLS for name, x in setting.fixed})
    workload = {"model": setting.model, "trace": setting.trace}
    evaluator = with_pools_of(space, api.build_evaluator("system", workload), "system")
    return space, cast(SystemEvaluator, evaluator)


def _catalogs() -> dict[str, Any]:
    return {"memtech": load_library().catalog()}


def _space_data(setting: SystemSetting) -> dict[str, Any]:
    data = copy.deepcopy(dict(read_document(resources.find("spaces", SPACE)).data))
    if setting.most_machines is not None:
        for pool in POOLS:
            data["pools"][pool]["machines"] = {"low": 1, "high": setting.most_machines}
    return data


def _of_one(
    setting: SystemSetting, kind: Kind, space: DesignSpace, evaluator: SystemEvaluator
) -> tuple[DesignSpace, UniformSystem]:
    """Systems of machines that are all alike, of the same machines, numbers and links."""
    levels = {parameter.name: parameter.values for parameter in space.parameters}
    machine_space = _space_data(setting)["pools"][POOLS[0]]["space"]
    most = max(int(str(value)) for value in levels[f"{POOLS[0]}_machines"])
    least = 1 if kind == "turns" else len(POOLS)
    machines = {"machines": {"low": least, "high": most * len(POOLS)}}
    text = json.dumps({"based_on": machine_space, "parameters": machines})
    uniform_space = parse_space(text, _catalogs(), f"{machine_space}-uniform")
    uniform_space = uniform_space.fix(dict(setting.fixed))
    of_machine = {item.name: item.values for item in uniform_space.parameters}
    software = {} if kind == "one-design" else {name: of_machine[name] for name in SOFTWARE}
    # The evaluator sets software for each role; one value stands for all.
    stand_ins = {name: values[0] for name, values in software.items()}
    keys = (*LINK_PARAMETERS, *OPTIONAL_LINK_PARAMETERS)
    names = [f"{link.name}_{key}" for link in space.links for key in keys]
    links = {name: float(str(levels[name][0])) for name in names if name in levels}
    uniform = UniformSystem(evaluator, links, most, software, takes_turns=kind == "turns")
    return uniform_space.fix(stand_ins), uniform

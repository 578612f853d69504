"""Found designs as devices: of a campaign, or named by a design space."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from codesign.base.errors import InputError, UnknownNameError, mistakes_at
from codesign.cli.evaluation import DEFAULT_SPACE

if TYPE_CHECKING:
    from codesign.base.columns import Fields, IntegerMap, StringList
    from codesign.evaluators.phase_machine import PhaseMachine
    from codesign.evaluators.platform.design_times import FoundDesign


def design_name(text: str) -> str | None:
    """Source and name of the design that a text of ``--on`` names; None if it names devices.

    A design is ``CAMPAIGN#3``, ``CAMPAIGN#NAME``, ``SPACE#NAME``, or ``NAME`` of the default space.

    Raises:
        UnknownNameError: There is no such device or design.
    """
    from codesign.models.hardware.device import load_device

    if "#" in text or text == "all":
        return text if "#" in text else None
    try:
        load_device(text, "--on")
    except UnknownNameError:
        from codesign import api

        if text not in api.load_space(DEFAULT_SPACE).designs:
            if "," in text:
                words = f"expected one device, got {text!r}: repeat --on for each"
                raise InputError(words, "--on") from None
            raise
        return f"{DEFAULT_SPACE}#{text}"
    return None


def named_machine(name: str, model: str) -> tuple[PhaseMachine, Fields, IntegerMap]:
    """Evaluator of a design for a model, the design's values, and units of its stores of prompts.

    Args:
        name: Source and name, as :func:`design_name` has it; a source is a campaign, the folder of
            its results, or a space, whose designs the evaluator npu gets.

    Raises:
        InputError: No such design, or it is no machine for one phase of a request.
    """
    from codesign import api
    from codesign.evaluators.npu import NpuEvaluator, NpuOptions
    from codesign.evaluators.phase_machine import checked_machine, machine_for
    from codesign.evaluators.sessions import SessionsEvaluator

    source, _, design = name.partition("#")
    path = Path(source)
    values: Fields
    stores: IntegerMap = {}
    # A prompt fills the array, which the thermal design power is of.
    request = {"model": model, "phase": "prefill", "prompt_tokens": 1024, "generated_tokens": 1}
    try:
        place = (path.name, path.parent) if path.is_dir() else (source, None)
        campaign = api.load_campaign(*place)
    except UnknownNameError:
        if design.isdigit():
            raise
        space = api.load_space(source)
        values = space.decode(api.find_design(space, design))[0]
        if space.pools:
            raise InputError(f"expected one machine, got pools {', '.join(space.pools)}") from None
        return machine_for(NpuEvaluator, request, NpuOptions()), values, stores
    stated = campaign.problem.evaluator
    sessions = stated if isinstance(stated, SessionsEvaluator) else None
    machine = checked_machine(
        sessions.first if sessions else stated, campaign.problem.evaluator_name
    )
    _, values = api.design_of_campaign(campaign, design)
    if sessions:
        values, stores = sessions.split_caches(values)
    request["beyond_context"] = getattr(stated.workload, "beyond_context", False)
    return machine_for(type(machine), request, machine.options, machine), values, stores


def split_designs(
    on: StringList | None, model: str
) -> tuple[StringList | None, dict[str, FoundDesign]]:
    """Texts of ``--on`` that name devices, and found designs by the text that names each.

    Raises:
        InputError: There is no such design, or it cannot serve.
    """
    from codesign.evaluators.platform.design_times import found_design

    names = {text: design_name(text) for text in on or ()}
    designs = {}
    for text, name in names.items():
        if name is not None:
            with mistakes_at(f"--on {text}"):
                designs[text] = found_design(text, *named_machine(name, model)[:2])
    return [text for text in names if text not in designs] if designs else on, designs

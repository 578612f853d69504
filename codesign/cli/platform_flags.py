"""Flags of the commands about several devices, and the evaluator that they state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from codesign.base.errors import InputError
from codesign.cli import completion
from codesign.cli.evaluation import read_pairs
from codesign.cli.flag_records import filled_keys, flag, flag_names, token_flag
from codesign.cli.flags import count, naming, number, quantity
from codesign.cli.output import say

if TYPE_CHECKING:
    from codesign.evaluators.platform import PlatformEvaluator
    from codesign.evaluators.platform.requirements import LatencyLimits

Model = Annotated[
    str,
    typer.Option(
        help="Language model, or the path of a config.json.", autocompletion=completion.models
    ),
]
Device = Annotated[
    str,
    typer.Option(help="Accelerator, or the path of its file.", autocompletion=completion.devices),
]
Batch = Annotated[int, typer.Option(help="Requests served together, over all replicas.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="An option of the evaluator, such as profile=genz, offload=true or "
        "compute_efficiency=0.6; may be repeated.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="Number format of weights and activations. [bf16]"),
]


@dataclass(frozen=True)
class TokenFlags:
    """The tokens of a request."""

    record: ClassVar[str] = "codesign.evaluators.platform:PlatformRequest"
    use_case: str | None = flag()
    prompt_tokens: int | None = token_flag()
    generated_tokens: int | None = token_flag()

    def workload(self, model: str) -> dict[str, Any]:
        """The keys that describe the requests; those that were left out are absent.

        Raises:
            InputError: The command line sets the tokens of a request in no way, or in two.
        """
        tokens = {
            "--prompt-tokens": self.prompt_tokens,
            "--generated-tokens": self.generated_tokens,
        }
        token_flags = [name for name, value in tokens.items() if value is not None]
        if len(token_flags) != (2 if self.use_case is None else 0):
            token_flags = [*(() if self.use_case is None else ("--use-case",)), *token_flags]
            raise InputError(
                "expected --use-case, or both --prompt-tokens and --generated-tokens, got "
                f"{' and '.join(token_flags) or 'neither'}"
            )
        return {"model": model, **filled_keys(self)}


@dataclass(frozen=True)
class RequestFlags(TokenFlags):
    """The tokens of a request and its answers."""

    beams: int | None = flag()


@dataclass(frozen=True)
class PassFlags(RequestFlags):
    """The tokens of a request, its answers, and how its prompt is cut."""

    chunk_tokens: int | None = token_flag()
    mixed: bool | None = flag("", None, "--mixed")


@dataclass(frozen=True)
class GroupFlags:
    """Split of a model within one stage."""

    tp: int | None = flag("Tensor parallelism. [1]", key="tensor_parallel")
    ep: int | None = flag("Expert parallelism. [1]", key="expert_parallel")


@dataclass(frozen=True)
class DegreeFlags:
    """Split of a model."""

    tp: int | None = flag("Tensor parallelism. [1]", key="tensor_parallel")
    pp: int | None = flag("Stages of the pipeline. [1]", key="pipeline_parallel")
    ep: int | None = flag("Expert parallelism. [1]", key="expert_parallel")
    sp: int | None = flag("Sequence parallelism. [1]", key="sequence_parallel")


@dataclass(frozen=True)
class ReplicaFlags(DegreeFlags):
    """Split and replicas of a model."""

    dp: int | None = flag("Replicas. [1]", key="data_parallel")


@dataclass(frozen=True)
class FormatFlags:
    """Number formats."""

    format_: Format = None
    weight_format: str | None = flag("Number format of the weights alone.")
    activation_format: str | None = flag("Number format of the activations alone.")
    kv_format: str | None = flag("Number format of the KV cache. [bf16]")

    def formats(self) -> dict[str, str]:
        """Number formats by parameter.

        Raises:
            InputError: There is no such format.
        """
        from codesign.models.workload.precision import DEFAULT_FORMAT, find_format

        shared = self.format_ or DEFAULT_FORMAT
        formats = {
            "weight_format": self.weight_format or shared,
            "activation_format": self.activation_format or shared,
            "kv_format": self.kv_format or DEFAULT_FORMAT,
        }
        for name, format_name in formats.items():
            own_flag = f"--{name.replace('_', '-')}"
            find_format(format_name, "--format" if format_name == shared else own_flag)
        return formats


@dataclass(frozen=True)
class LimitFlags:
    """Limits on the two times."""

    first_token: str | None = flag("Limit on the time to first token, such as '0.4 s'.")
    output_token: str | None = flag("Limit on the time per output token, such as '50 ms'.")

    def seconds(
        self, first: float | None = None, output: float | None = None
    ) -> tuple[float | None, float | None]:
        """Both limits in seconds; of a flag that is left out the one that is passed."""
        return (
            first if self.first_token is None else seconds("--first-token", self.first_token),
            output if self.output_token is None else seconds("--output-token", self.output_token),
        )


DEGREE_FLAGS = flag_names(ReplicaFlags)
"""Flag by the evaluator's parameter."""
_WORKLOAD = {"model": "--model", **flag_names(PassFlags)}
"""Flag by the workload's key."""
FLAGS = {**DEGREE_FLAGS, **_WORKLOAD, "batch_size": "--batch"}


def seconds(name: str, text: str) -> float:
    """A flag's time above 0, in seconds."""
    return number(name, quantity(name, text, "s"), "a time", above=0, text=repr(text))


def degrees_of(split: GroupFlags | DegreeFlags) -> dict[str, int]:
    """Degrees by parameter, 1 where none is given."""
    degrees = filled_keys(split)
    return {
        key: count(name, degrees[key]) if key in degrees else 1
        for key, name in flag_names(split).items()
    }


def build(
    workload: Mapping[str, Any], options: list[str] | None, device: str | None
) -> tuple[PlatformEvaluator, str]:
    """The evaluator, and the name under which it knows the device."""
    from codesign.base.schema import Document, to_record
    from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
    from codesign.models.hardware.device import load_device

    with naming(_WORKLOAD):
        request = to_record(Document("workload", dict(workload), {}), PlatformRequest)
    pairs = read_pairs("--option", options, as_yaml=True)
    settings = to_record(Document("--option", pairs, {}), PlatformOptions)
    if device is None:
        return PlatformEvaluator(request, settings), ""
    accelerator = load_device(device, "--device")
    if accelerator.is_announced:
        say(f"note: the figures of {accelerator.name} are announced ones")
    devices = {accelerator.key: accelerator}
    return PlatformEvaluator(request, settings, devices=devices), accelerator.key


def limits_of(evaluator: PlatformEvaluator) -> LatencyLimits | None:
    """The use case's own limits on time, if it has them."""
    from codesign.evaluators.platform.requirements import LatencyLimits

    case = evaluator.workload.limits
    if case is None:
        return None
    return LatencyLimits(case.time_to_first_token_s, case.time_per_output_token_s)


def platform_inputs(evaluator: PlatformEvaluator, design: Mapping[str, Any]) -> dict[str, Any]:
    """Workload, options and design of an evaluation, for its report."""
    workload = evaluator.workload.model_dump(mode="json", exclude_none=True)
    options = evaluator.options.model_dump(mode="json", exclude_unset=True)
    inputs = {"workload": workload, "options": options, "design": dict(design)}
    return {"profile": evaluator.profile, **inputs}

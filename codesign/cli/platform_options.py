"""What the commands about several devices share: their options, and the evaluator from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli import completion
from codesign.cli.evaluation import read_pairs
from codesign.cli.flags import naming, prefix_problems, token_count
from codesign.cli.output import say
from codesign.errors import InputError

if TYPE_CHECKING:
    from codesign.evaluators.platform import PlatformEvaluator
    from codesign.evaluators.platform.requirements import LatencyLimits

_FORMATS = ("weight_format", "activation_format", "kv_format")
DEGREE_FLAGS = {
    "tensor_parallel": "--tp",
    "pipeline_parallel": "--pp",
    "expert_parallel": "--ep",
    "sequence_parallel": "--sp",
    "data_parallel": "--dp",
}
"""Flag by the evaluator's parameter."""
_WORKLOAD = {
    "model": "--model",
    "use_case": "--use-case",
    "prompt_tokens": "--prompt-tokens",
    "generated_tokens": "--generated-tokens",
    "beams": "--beams",
    "chunk_tokens": "--chunk-tokens",
    "mixed": "--mixed",
}
"""Flag by the workload's key."""
FLAGS = {**DEGREE_FLAGS, **_WORKLOAD, "batch_size": "--batch"}

Model = Annotated[
    str,
    typer.Option(
        help="Language model, or the path of a config.json.", autocompletion=completion.models
    ),
]
UseCase = Annotated[
    str | None,
    typer.Option(
        help="question-answering, chat, rag-qa, summarization, code-generation or "
        "personal-assistant."
    ),
]
Prompt = Annotated[
    int | None,
    typer.Option(
        parser=token_count, metavar="N|32K", help="Tokens of a prompt; instead of --use-case."
    ),
]
Generated = Annotated[
    int | None,
    typer.Option(
        parser=token_count,
        metavar="N|32K",
        help="Tokens generated after it; instead of --use-case.",
    ),
]
Beams = Annotated[int | None, typer.Option(help="Answers generated side by side.")]
Chunk = Annotated[int | None, typer.Option(help="Prompt tokens prefilled in one pass. [all]")]
Mixed = Annotated[
    bool, typer.Option("--mixed", help="Every chunk's pass carries a decode step of the batch.")
]
Batch = Annotated[int, typer.Option(help="Requests served together, over all replicas.")]
Format = Annotated[
    str,
    typer.Option("--format", help="Number format of weights, activations and KV cache."),
]
KvFormat = Annotated[str | None, typer.Option(help="Number format of the KV cache alone.")]
WeightFormat = Annotated[str | None, typer.Option(help="Number format of the weights alone.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="An option of the evaluator, such as profile=genz, offload=true or "
        "compute_efficiency=0.6; may be repeated.",
    ),
]
Tp = Annotated[int | None, typer.Option("--tp", help="Tensor parallelism. [1]")]
Pp = Annotated[int | None, typer.Option("--pp", help="Stages of the pipeline. [1]")]
Ep = Annotated[int | None, typer.Option("--ep", help="Expert parallelism. [1]")]
Dp = Annotated[int | None, typer.Option("--dp", help="Replicas. [1]")]
Sp = Annotated[int | None, typer.Option("--sp", help="Sequence parallelism. [1]")]


def workload_of(
    model: str,
    use_case: str | None,
    prompt_tokens: int | None,
    generated_tokens: int | None,
    beams: int | None,
) -> dict[str, Any]:
    """The options that describe the requests; those that were left out are absent.

    Raises:
        InputError: The command line sets the tokens of a request in no way, or in two.
    """
    tokens = {"--prompt-tokens": prompt_tokens, "--generated-tokens": generated_tokens}
    token_flags = [name for name, value in tokens.items() if value is not None]
    if len(token_flags) != (2 if use_case is None else 0):
        token_flags = [*(() if use_case is None else ("--use-case",)), *token_flags]
        raise InputError(
            "expected --use-case, or both --prompt-tokens and --generated-tokens, got "
            f"{' and '.join(token_flags) or 'neither'}"
        )
    workload = {
        "model": model,
        "use_case": use_case,
        "prompt_tokens": prompt_tokens,
        "generated_tokens": generated_tokens,
        "beams": beams,
    }
    return {name: value for name, value in workload.items() if value is not None}


def count(name: str, value: int) -> int:
    """A flag's whole number from 1."""
    if value < 1:
        raise InputError(f"expected a whole number from 1, got {value}", name)
    return value


def seconds(name: str, text: str) -> float:
    """A flag's time above 0, in seconds."""
    from codesign.units import parse_quantity

    with prefix_problems(name):
        value = parse_quantity(text, "s")
    if value <= 0:
        raise InputError(f"expected a time above 0, got {text!r}", name)
    return value


def formats_of(all_: str, weight: str | None, cache: str | None) -> dict[str, str]:
    """Number formats by parameter."""
    from codesign.workload.precision import find_format

    chosen = (weight or all_, all_, cache or all_)
    for name, option in zip(chosen, ("--weight-format", "--format", "--kv-format"), strict=True):
        find_format(name, option if name != all_ else "--format")
    return dict(zip(_FORMATS, chosen, strict=True))


def degrees_of(degrees: Mapping[str, int | None]) -> dict[str, int]:
    """Degrees by parameter, 1 where none is given."""
    return {
        name: 1 if value is None else count(DEGREE_FLAGS[name], value)
        for name, value in degrees.items()
    }


def build(
    workload: Mapping[str, Any], options: list[str] | None, device: str | None
) -> tuple[PlatformEvaluator, str]:
    """The evaluator, and the name under which it knows the device."""
    from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
    from codesign.hardware.device import load_device
    from codesign.schema import Document, to_record

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

"""Flags of the serving commands: each is declared once and shared by all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from codesign.base.errors import InputError, check_known
from codesign.base.records import drop_none, frozen
from codesign.cli import completion
from codesign.cli.evaluation import read_pairs
from codesign.cli.flag_records import filled_keys, flag, flag_names, token_flag
from codesign.cli.flags import count, flag_by_key, naming, number, quantity
from codesign.cli.output import say

if TYPE_CHECKING:
    from codesign.base.columns import (
        Fields,
        IntegerDict,
        JsonObject,
        JsonRows,
        StringDict,
        StringList,
    )
    from codesign.evaluators.platform import PlatformEvaluator
    from codesign.evaluators.platform.engine_settings import EngineSettings
    from codesign.models.hardware.device import Device

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Language model, or the path of a config.json.",
        autocompletion=completion.models,
    ),
]
Convention = Annotated[
    str | None,
    typer.Option(
        help="fitted (measured kernels), ideal (a bound), genz, epoch, life (papers), or a "
        "plug-in's. Forecasts have plain, which is their default. [fitted]"
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="A setting without a flag, such as engine=eager; repeatable. An "
        "unknown key lists all keys.",
    ),
]
PowerLimit = Annotated[
    float | None,
    typer.Option(help="Power limit of each device in watts, such as 400. [its board's]"),
]
Device_ = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        help="A device, the path of its file, or a found design, such as CAMPAIGN#3; repeatable.",
        autocompletion=completion.devices,
    ),
]


Stores = Annotated[
    list[str] | None,
    typer.Option(
        "--cache",
        metavar="MEMORY=UNITS",
        help="Memory behind each machine that keeps prompts, such as ddr5_rdimm=8; repeatable, "
        "the nearest first.",
    ),
]


@frozen
class RequestFlags:
    """The tokens of a request, and the limits on its times."""

    record: ClassVar[str] = "codesign.evaluators.platform:PlatformRequest"
    use_case: str | None = flag()
    prompt_tokens: int | None = token_flag("Tokens of a prompt; instead of --use-case.")
    generated_tokens: int | None = token_flag("Tokens generated after it.")
    beams: int | None = flag()
    first_token: str | None = flag("Limit on the time to first token, such as '0.4 s'.", key="")
    output_token: str | None = flag("Limit on the time per output token, such as '50 ms'.", key="")

    def workload(self, model: str) -> JsonObject:
        """The keys that describe the requests; those that were left out are absent.

        Raises:
            InputError: The command line sets the tokens of a request in no way, or in two.
        """
        tokens = {
            "--prompt-tokens": self.prompt_tokens,
            "--generated-tokens": self.generated_tokens,
        }
        token_flags = [*drop_none(tokens)]
        if len(token_flags) != (2 if self.use_case is None else 0):
            token_flags = [*(() if self.use_case is None else ("--use-case",)), *token_flags]
            raise InputError(
                "expected --use-case, or both --prompt-tokens and --generated-tokens, got "
                f"{' and '.join(token_flags) or 'neither'}"
            )
        return {"model": model, **filled_keys(self)}

    def limits(self) -> tuple[float | None, float | None]:
        """Both latency limits in seconds, from the flags or else the use case; None: no limit."""
        from codesign.evaluators.platform.use_cases import load_use_case

        case = None if self.use_case is None else load_use_case(self.use_case)
        first = case.time_to_first_token_s if case else None
        output = case.time_per_output_token_s if case else None
        return (
            first if self.first_token is None else seconds("--first-token", self.first_token),
            output if self.output_token is None else seconds("--output-token", self.output_token),
        )


@frozen
class DraftFlags:
    """Speculative decoding."""

    record: ClassVar[str] = "codesign.evaluators.platform:PlatformRequest"
    draft: str | None = flag()
    draft_tokens: int | None = flag()
    acceptance: float | None = flag()


@frozen
class GroupFlags:
    """Split of a model within one stage."""

    tp: int | None = flag("Tensor parallelism.", key="tensor_parallel")
    ep: int | None = flag("Expert parallelism.", key="expert_parallel")


@frozen
class SplitFlags(GroupFlags):
    """Split and replicas of a model."""

    pp: int | None = flag("Stages of the pipeline.", key="pipeline_parallel")
    sp: int | None = flag("Sequence parallelism.", key="sequence_parallel")
    dp: int | None = flag("Replicas.", key="data_parallel")


@frozen
class LinkFlags:
    """Links between devices."""

    record: ClassVar[str] = "codesign.evaluators.platform:PlatformOptions"
    link: str | None = flag()


@frozen
class FormatFlags:
    """Number formats."""

    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Number format of weights and activations; int4 (AWQ, GPTQ) applies to "
            "weights only. [as the model is published]",
        ),
    ] = None
    weight_format: str | None = flag("Number format of the weights alone.")
    activation_format: str | None = flag("Number format of the activations alone.")
    kv_format: str | None = flag("Number format of the KV cache, whatever --format says. [bf16]")

    def formats(self, model: str) -> StringDict:
        """Number formats by parameter.

        Args:
            model: Language model, whose published formats are the default.

        Raises:
            InputError: There is no such format.
        """
        from codesign.models.workload.model_library import load_model
        from codesign.models.workload.precision import DEFAULT_FORMAT, find_format

        stated = {
            "weight_format": self.weight_format or self.format_,
            # AWQ and GPTQ, which name 4-bit integers, leave activations in 16 bits.
            "activation_format": self.activation_format
            or (DEFAULT_FORMAT if self.format_ == "int4" else self.format_),
            "kv_format": self.kv_format,
        }
        defaults = dict.fromkeys(stated, DEFAULT_FORMAT) | load_model(model).published_formats
        formats = defaults | drop_none(stated)
        for name, format_name in formats.items():
            own_flag = f"--{name.replace('_', '-')}"
            find_format(format_name, "--format" if format_name == self.format_ else own_flag)
        return formats


SPLIT = flag_names(SplitFlags)
"""Flag by the evaluator's parameter."""
FLAGS = {
    **SPLIT,
    "model": "MODEL",
    "profile": "--convention",
    "batch_size": "--batch",
    "device_usd_per_hour": "--price-per-hour",
    "power_limit": "--power-limit",
    **flag_names(RequestFlags, DraftFlags, LinkFlags),
}
"""Flag by the key of an evaluator's workload, options or parameters."""


def seconds(name: str, text: str) -> float:
    """A flag's time above 0, in seconds."""
    return number(name, quantity(name, text, "s"), "a time", above=0, text=repr(text))


def degrees_of(split: GroupFlags) -> IntegerDict:
    """Degrees by parameter; those that are left out are absent."""
    names = flag_names(split)
    return {key: count(names[key], value) for key, value in filled_keys(split).items()}


def settings_by_record(option: StringList | None, *records: Any) -> JsonRows:
    """The pairs of ``--option``, grouped by the record that has their key.

    Args:
        option: Texts ``KEY=VALUE``.
        records: Pydantic records, or lists of keys; the first that has a key gets its pair.

    Raises:
        UnknownNameError: No record has a key.
    """
    settings: JsonRows = [{} for _ in records]
    owners: JsonObject = {}
    for record, owned in zip(records, settings, strict=True):
        owners = dict.fromkeys(getattr(record, "model_fields", record), owned) | owners
    for key, value in read_pairs("--option", option, as_yaml=True).items():
        check_known("key", key, owners, "--option")
        owners[key][key] = value
    return settings


def engine_settings(stated: Fields) -> EngineSettings:
    """Settings of engines from their pairs of ``--option``."""
    from codesign.base.schema import Document, parse_record
    from codesign.evaluators.platform.engine_settings import EngineSettings

    with naming({}, flag_by_key("--option", EngineSettings.model_fields)):
        settings = parse_record(Document("option", dict(stated), {}), EngineSettings)
        settings.limits()
    return settings


def store_units(cache: StringList | None) -> IntegerDict:
    """Units of each ``--cache`` by memory technology, in order."""
    pairs = read_pairs("--cache", cache, as_yaml=True)
    for name, units in pairs.items():
        if isinstance(units, dict):  # the name has a dot
            raise InputError("expected the name of a memory, not a file", f"--cache {name}")
        if not isinstance(units, int):
            raise InputError(f"expected a whole number from 1, got {units!r}", f"--cache {name}")
    return {name: count(f"--cache {name}", units) for name, units in pairs.items()}


def single_device(on: StringList | None) -> str:
    """The only text of ``--on``.

    Raises:
        InputError: There is none, or there are several.
    """
    if not on or len(on) > 1 or on == ["all"]:
        raise InputError("expected one device, such as h200", "--on")
    return on[0]


def named_devices(on: StringList | None) -> dict[str, Device]:
    """Devices by key; ``all`` is every bundled one."""
    from codesign.models.hardware.device import list_devices, load_device

    if not on:
        raise InputError("expected a device, such as h200, or all", "--on")
    if is_every := on == ["all"]:
        # Times of kernels need the cores, which some makers have not published.
        on = [name for name in list_devices() if load_device(name).n_cores]
    devices = [load_device(name, "--on") for name in on]
    for device in devices:
        if device.is_announced and not is_every:
            say(f"note: the figures of {device.name} are announced ones")
    return {device.key: device for device in devices}


def build(workload: Fields, settings: Fields, devices: Mapping[str, Device]) -> PlatformEvaluator:
    """The evaluator of a request on some devices.

    Args:
        workload: Keys of the request.
        settings: Keys of the evaluator's options.
        devices: Devices by the names that designs use.
    """
    from codesign.base.schema import Document, parse_record
    from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest

    pairs = {**flag_by_key("--option", {*settings, *workload}), **FLAGS}
    with naming(FLAGS, pairs):
        request = parse_record(Document("workload", dict(workload), {}), PlatformRequest)
        options = parse_record(Document("option", dict(settings), {}), PlatformOptions)
        for device in devices.values():
            if options.power_limit is not None:
                device.check_power_limit(options.power_limit)
            if options.link is not None and device.joined_by(options.link) is device:
                problem = f"{device.key} has no PCIe link: add a generation, such as pcie4-host"
                raise InputError(problem, key=("link",))
        return PlatformEvaluator(request, options, devices=devices)


def question_inputs(evaluator: PlatformEvaluator, design: Fields) -> JsonObject:
    """Workload, options and design of an evaluation, for its report."""
    workload = evaluator.workload.model_dump(mode="json", exclude_none=True)
    options = evaluator.options.model_dump(mode="json", exclude_unset=True)
    inputs = {"workload": workload, "options": options, "design": dict(design)}
    return {"convention": evaluator.profile, **inputs}

"""``codesign size``: number and choice of the devices that serve a model, and their price."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codesign.base.errors import InputError, check_known, entry_named
from codesign.base.records import drop_keys, drop_none, frozen
from codesign.cli.flag_records import flag_names, set_flags
from codesign.cli.flags import check_figure, count, naming, numbers
from codesign.cli.found_designs import split_designs
from codesign.cli.output import make_console, report, say
from codesign.cli.price_frontier import answer_frontier
from codesign.cli.serving_flags import (
    FLAGS,
    SPLIT,
    DraftFlags,
    build,
    degrees_of,
    named_devices,
    question_inputs,
    single_device,
)
from codesign.cli.session_size import answer_sessions
from codesign.cli.size_flags import SizeQuestion, StudyFlags

if TYPE_CHECKING:
    from codesign.answers.sizing import DeploymentEntry
    from codesign.base.columns import (
        Fields,
        IntegerMap,
        JsonObject,
        StringDict,
        StringMap,
        StringTuple,
    )
    from codesign.evaluators.platform import PlatformEvaluator
    from codesign.evaluators.platform.deployments import Deployment
    from codesign.evaluators.platform.design_times import FoundDesign
    from codesign.evaluators.platform.instances import Demand

_MOST_CHOICES = 20
_SEARCH_KEYS = ("most_devices", "policies")
"""Settings of the search, among the pairs of ``--option``."""


def size(question: SizeQuestion) -> None:
    """Size a deployment: machines, watts, dollars per million tokens, bottleneck, best policy."""
    study = question.study
    split = question.split
    check_figure("--figure", study.figure)
    is_paper = question.convention == "epoch"
    records = (question.request, question.demand, study, split, question.draft)
    flags = [name for record in records for name in set_flags(record)]
    more = {"--batch": question.batch, "--cache": question.cache}
    flags += [name for name, value in more.items() if value]
    stated_demand = None if is_paper else question.demand.demand(question.request.limits())
    subject = "one instance" if _INSTANCE & {*flags} else "price against speed"
    subject = next((name for name in QUESTIONS if name in flags), subject)
    if is_paper:
        subject = "--convention epoch"
    if strays := [each for each in flags if each not in QUESTIONS[subject]]:
        usable = [", ".join(name for name in QUESTIONS if x in QUESTIONS[name]) for x in strays]
        raise InputError([
            f"{stray}: expected it with one of {names}, got {subject}"
            for stray, names in zip(strays, usable, strict=True)
        ])  # fmt: skip
    devices, designs = split_designs(question.on, question.model)
    unserved = question.power_limit, split.pp, question.request.beams
    if designs and (subject != "--users" or study.launch or any(unserved)):
        raise InputError(
            "found designs serve --users, without --launch, --power-limit, --pp and --beams; "
            "codesign serve-model --on replays requests on one",
            "--on",
        )
    if subject in ("--convention epoch", "price against speed"):
        answer_frontier(question)
        return
    if subject == "--session":
        answer_sessions(question)
        return
    searched = _SEARCH_KEYS if stated_demand is not None else ()
    workload, settings, search = question.settings(searched)
    if study.vary is not None:
        _vary(question, workload, settings)
        return
    others = question.formats.formats(question.model)
    if stated_demand is not None:
        named = {} if designs and not devices else named_devices(devices)
        evaluator = build(workload, settings, named)
        fixed = degrees_of(split)
        _report_fleet(_Fleet(evaluator, stated_demand, others, fixed, search, designs), study)
        return
    evaluator = build(workload, settings, named_devices([single_device(question.on)]))
    instance: JsonObject = {"device": next(iter(evaluator.devices)), **others}
    if study.devices is None:
        _report_instance(evaluator, instance, question)
        return
    instance["batch_size"] = _requests(None, instance, question.batch)
    _report_choices(evaluator, instance, count("--devices", study.devices), study.best)


_REQUEST = {"--use-case", "--prompt-tokens", "--generated-tokens", "--beams"}
_LIMITS = {"--first-token", "--output-token"}
_FLEET = {*_REQUEST, *_LIMITS, "--best", "--launch", "--tp", "--pp", "--ep"}
_INSTANCE = {*SPLIT.values(), "--batch"}
_DRAFT = {*flag_names(DraftFlags).values()}
QUESTIONS = {
    "--requests-per-s": {*_FLEET, *_DRAFT, "--requests-per-s", "--attainment", "--seed"},
    "--users": {*_FLEET, *_DRAFT, "--users"},
    "--burst": {*_FLEET, *_DRAFT, "--burst"},
    "--session": {*_LIMITS, "--session", "--sessions-per-s", "--cache", "--tp"},
    "--vary": {*_REQUEST, *_INSTANCE, "--vary", "--factors", "--figure"},
    "--devices": {*_REQUEST, *_DRAFT, "--devices", "--batch", "--best"},
    "one instance": {*_REQUEST, *_DRAFT, *_LIMITS, *_INSTANCE},
    "price against speed": {*_REQUEST, *_LIMITS, "--figure"},
    "--convention epoch": {"--figure"},
}
"""Flags that have an effect, by the question that is answered."""


# A demand.


@frozen
class _Fleet:
    """A demand on some devices, with the stated formats and degrees of its deployments."""

    evaluator: PlatformEvaluator
    demand: Demand
    formats: StringMap
    fixed: IntegerMap
    search: Fields
    designs: Mapping[str, FoundDesign]

    def deployments(self, ranked_by: str) -> list[Deployment]:
        """The best deployment of each policy, the best first."""
        from codesign.evaluators.platform.deployments import (
            MOST_DEVICES,
            POLICIES,
            DeploymentSearch,
        )

        most = self.search.get("most_devices", MOST_DEVICES)
        if not isinstance(most, int):
            raise InputError(f"expected a whole number, got {most!r}", "--option most_devices")
        count("--option most_devices", most)
        policies = self.search.get("policies", POLICIES)
        policies = [policies] if isinstance(policies, str) else list(policies)
        for policy in policies:
            check_known("policy", policy, POLICIES, "--option policies")
        is_random = self.demand.requests_per_s is not None
        if self.demand.burst is not None:
            policies = ["together"]
        with naming(FLAGS):
            search = DeploymentSearch(
                self.evaluator, self.formats, self.demand, policies, most, self.fixed,
                designs=self.designs, has_stages=not is_random,
                overlaps=not is_random,
            )  # fmt: skip
            usd = self.evaluator.options.device_usd_per_hour
            return search.best(usd, is_priced=ranked_by == "usd")

    def entries(self, ranked_by: str) -> list[DeploymentEntry]:
        """The deployments as the answer has them."""
        from codesign.answers.sizing import DeploymentEntry

        evaluator = self.evaluator
        tokens = evaluator.workload.prompt, evaluator.workload.generated
        usd = evaluator.options.device_usd_per_hour
        limit = evaluator.options.power_limit
        devices: dict[str, Any] = {**evaluator.devices, **self.designs}
        if limit is not None:
            devices = {
                name: device.model_copy(update={"power": limit}) for name, device in devices.items()
            }
        entries = [
            DeploymentEntry.describe(deployment, devices, tokens, usd, **fields)
            for deployment, fields in self._simulated(self.deployments(ranked_by))
        ]

        def rank(entry: DeploymentEntry) -> float:
            cost = entry.usd_per_hour if ranked_by == "usd" else entry.devices
            return math.inf if cost is None else cost

        firsts: dict[Any, DeploymentEntry] = {}
        for entry in sorted(entries, key=rank):
            pools = ((pool.device, pool.draft) for pool in entry.pools)
            firsts.setdefault((entry.policy, *pools), entry)
        return list(firsts.values())

    def _simulated(self, deployments: list[Deployment]) -> list[tuple[Deployment, JsonObject]]:
        """The deployments that keep the limits request by request, with what was simulated.

        Without random arrivals nothing is simulated.
        """
        from codesign.evaluators.platform.fleet_sizing import simulated_fleet

        if self.demand.requests_per_s is None:
            return [(deployment, {}) for deployment in deployments]
        if (beams := self.evaluator.workload.n_beams) > 1:
            raise InputError(f"expected 1 beam with --requests-per-s, got {beams}")
        fleets = []
        problems = []
        for deployment in deployments:
            try:
                fleets.append(
                    simulated_fleet(self.evaluator, self.demand, deployment, self.formats)
                )
            except InputError as error:
                problems.append(f"{deployment.policy}: {'; '.join(error.problems)}")
        if not fleets:
            raise InputError(f"no fleet keeps the limits; nearest: {problems[0]}")
        for problem in problems:
            say(f"note: left out {problem}")
        return fleets

    def question(self) -> StringDict:
        """The question in words."""
        from codesign.report.question import (
            context_words,
            format_words,
            limit_words,
            user_words,
        )

        request = self.evaluator.workload
        demand = self.demand
        # A found design has formats of its own, which a note states.
        words = {"formats": format_words(self.formats)} if self.evaluator.devices else {}
        words["context"] = context_words(request.prompt, request.generated, request.n_beams)
        if demand.users is not None:
            words["users"] = user_words(demand.users)
        elif demand.requests_per_s is not None:
            share = f"{demand.attainment:.0%} of them within both limits"
            words["requests"] = f"{demand.requests_per_s:g} a second at random, {share}"
        else:
            words["requests"] = f"{demand.burst:,} that arrive together"
        words["limits"] = limit_words(*vars(demand.limits).values())
        return words | {"convention": self.evaluator.options.profile}


def _report_fleet(fleet: _Fleet, study: StudyFlags) -> None:
    from codesign.answers.sizing import DemandEntry, SizeAnswer
    from codesign.evaluators.platform import requirements as sizing
    from codesign.report import size_tables
    from codesign.report.launch import ENGINES, launch_lines

    ranked_by = study.best or "devices"
    check_known("rank", ranked_by, ("devices", "usd"), "--best")
    demand = fleet.demand
    evaluator = fleet.evaluator
    if study.launch is not None:
        check_known("engine", study.launch, (*ENGINES, "all"), "--launch")
    entries = fleet.entries(ranked_by)
    best = entries[0]
    # Requests at once, by Little's law.
    concurrent = best.requests_per_s * best.time_to_first_token_s
    concurrent += best.output_tokens_per_s * best.time_per_output_token_s
    at_once = demand.users or demand.burst or max(round(concurrent), 1)
    needed = None
    if demand.burst is None and evaluator.devices:
        needed = sizing.size_steady_state(evaluator, demand.limits, at_once, fleet.formats)
    elif demand.burst is not None:
        others = {**fleet.formats, "batch_size": at_once}
        needed = sizing.size_requirements(evaluator, demand.limits, others)
    launch = study.launch
    model = evaluator.workload.model
    more = {"launch": launch_lines(launch, model, fleet.formats, best)} if launch else {}
    names = ["users", "requests_per_s", "burst", *["attainment"] * bool(demand.requests_per_s)]
    stated = drop_none({name: getattr(demand, name) for name in names})
    answer = SizeAnswer(
        model=model,
        **question_inputs(evaluator, {**fleet.formats, **fleet.fixed}),
        demand=DemandEntry(**stated, **vars(demand.limits)),
        deployments=entries,
        requirements=needed,
        notes=size_tables.fleet_notes(evaluator, demand.limits, entries, fleet.designs),
        **more,
    )
    report(lambda: answer, lambda: size_tables.fleet_tables(answer, fleet.question()))


# One instance.


def _requests(evaluator: PlatformEvaluator | None, design: Fields, batch: str | None) -> int:
    """The number of requests of ``--batch``; without an evaluator, ``max`` is refused."""
    batch = batch or "1"
    if batch == "max" and evaluator is not None:
        with naming(FLAGS):
            return max(evaluator.most_requests(design), 1)
    if not batch.lstrip("+-").isdigit():
        expected = "with --devices or --vary" if evaluator is None else "or max"
        raise InputError(f"expected a whole number {expected}, got {batch!r}", "--batch")
    return count("--batch", int(batch))


def _report_instance(
    evaluator: PlatformEvaluator,
    design: Fields,
    question: SizeQuestion,
) -> None:
    from codesign.answers.sizing import InstanceAccount, SizeAnswer
    from codesign.base.columns import design_columns
    from codesign.evaluators.platform.platform_limits import describe_limits
    from codesign.report import size_tables

    instance = {**design, **dict.fromkeys(SPLIT, 1), **degrees_of(question.split)}
    instance["batch_size"] = _requests(evaluator, instance, question.batch)
    columns = design_columns(instance)
    with naming(FLAGS):
        broken = describe_limits(evaluator.serving(columns))
        if broken:
            raise InputError(broken)
    explanation = evaluator.explain(columns)
    notes = list(explanation.notes)
    if hidden := _meaningless(evaluator):
        notes.append(
            "Nothing is generated, so generated tokens have no rate and no time"
            if {*_STEPS} <= {*hidden}
            else "Nothing is generated: the time per output token is that of a first decode step"
        )
    if instance["batch_size"] > 1:
        notes.append(
            "All prompts of the batch are prefilled together before the first token. Benchmarks "
            "with that many concurrent requests start them one by one, so first tokens come "
            "sooner; see --users for their time."
        )
    explanation = replace(
        explanation,
        metrics=drop_keys(explanation.metrics, hidden),
        ranges=drop_keys(explanation.ranges, hidden),
        notes=notes,
    )
    answer = SizeAnswer(
        model=evaluator.workload.model,
        **question_inputs(evaluator, instance),
        instance=InstanceAccount.describe(explanation, *question.request.limits()),
    )
    report(lambda: answer, lambda: size_tables.instance_tables(answer, make_console().width))


_RATES = (
    "throughput_tokens_per_s",
    "tokens_per_s_per_user",
    "tokens_per_s_per_device",
    "energy_joules_per_token",
    "tokens_per_joule",
    "average_power_watts",
    "output_tokens_per_s",
    "usd_per_million_output_tokens",
)
"""Rates of generated tokens, and the power, energy and price of generating them."""
_STEPS = (
    "time_per_output_token_s",
    "decode_linear_s",
    "decode_attention_s",
    "decode_collective_s",
)
"""Metrics of a decode step; GenZ's public tool reports them even if nothing is generated."""


def _meaningless(evaluator: PlatformEvaluator) -> StringTuple:
    """Metrics that mean nothing for a request."""
    if evaluator.workload.generated:
        return ()
    return _RATES if evaluator.profile == "genz" else (*_RATES, *_STEPS)


def _report_choices(
    evaluator: PlatformEvaluator,
    design: Fields,
    n_devices: int,
    best: str | None,
) -> None:
    import numpy as np

    from codesign.answers.sizing import Choices, SizeAnswer
    from codesign.base.columns import design_columns
    from codesign.base.metrics import PLATFORM_METRICS
    from codesign.evaluators.platform.instances import columns_of, factorizations, fitting
    from codesign.evaluators.platform.platform_limits import describe_limits, limits
    from codesign.models.deployments.parallelism import SEARCHED_DEGREES
    from codesign.report import size_tables

    generates = bool(evaluator.workload.generated)
    best = best or ("throughput_tokens_per_s" if generates else "time_to_first_token_s")
    check_known("metric", best, PLATFORM_METRICS, "--best")
    degrees = factorizations(n_devices)
    serving = evaluator.serving(columns_of(degrees, design))
    fits = fitting(serving)
    ranking = PLATFORM_METRICS[best]
    if not fits.any():
        with naming(FLAGS):
            # The nearest split breaks the fewest limits, then needs the least memory.
            broken = np.sum([values > 0 for values in limits(serving).values()], axis=0)
            nearest = np.lexsort((serving.memory_used_per_device_bytes, broken))[0]
            way = dict(zip(SEARCHED_DEGREES, degrees[nearest].tolist(), strict=True))
            split = ", ".join(f"{SPLIT[name]} {value}" for name, value in way.items())
            raise InputError([
                f"no way to use {math.prod(way.values())} devices keeps every limit; nearest: "
                f"{split}",
                *describe_limits(evaluator.serving(design_columns({**design, **way}))),
            ])  # fmt: skip
    order = np.argsort(ranking.flipped(np.asarray(getattr(serving, best))), kind="stable")
    names = [name for name in PLATFORM_METRICS if name not in _meaningless(evaluator)]
    metrics = {name: np.asarray(getattr(serving, name)) for name in names}
    ways = [
        dict(zip(SEARCHED_DEGREES, degrees[i].tolist(), strict=True))
        | {name: float(values[i]) for name, values in metrics.items()}
        for i in order[fits[order]]
    ]
    answer = SizeAnswer(
        model=evaluator.workload.model,
        **question_inputs(evaluator, design),
        choices=Choices(devices=n_devices, ranked_by=best, tried=len(degrees), ways=ways),
    )
    report(
        lambda: answer,
        lambda: size_tables.choices_table(answer, _MOST_CHOICES, make_console().width),
    )


def _vary(question: SizeQuestion, workload: Fields, settings: JsonObject) -> None:
    import numpy as np

    from codesign.answers.sizing import ScalingStudy, SizeAnswer
    from codesign.evaluators.platform import scaling
    from codesign.report import size_tables

    study = question.study
    axis = question.study.vary or ""
    varied = entry_named("axis", axis, scaling.AXES, "--vary")
    # GenZ varies numbers of an accelerator that nobody measured, so bounds are the default.
    settings = {"profile": "ideal", **settings} | ({"offload": True} if axis == "offload" else {})
    devices = named_devices(question.on or [str(scaling.REFERENCE_FILE)])
    evaluator = build(workload, settings, devices)
    design = {
        "device": next(iter(devices)), "batch_size": _requests(None, {}, question.batch),
        **question.formats.formats(question.model), **dict.fromkeys(SPLIT, 1),
        **degrees_of(question.split),
    }  # fmt: skip
    factors = None if study.factors is None else numbers("--factors", study.factors, above=0)
    for value in factors or ():
        if varied.parameter == "batch_size" and value != round(value):
            raise InputError(f"expected whole batch sizes, got {value:g}", "--factors")
    with naming(FLAGS):
        scaled = scaling.scale(evaluator, design, varied, factors)
    title = f"{evaluator.workload.model} on {design['device']}: {varied.words}"
    files = []
    if study.figure is not None:
        from codesign.report.platform_figures import save_scaling

        files.append(str(save_scaling(scaled, title, study.figure)))
        say(f"wrote {files[0]}")
    answer = SizeAnswer(
        model=evaluator.workload.model,
        **question_inputs(evaluator, design),
        scaling=ScalingStudy(axis=axis, paper=varied.section, rows=scaled.rows()),
        files=files,
    )
    words = size_tables.scaling_question(evaluator, design, varied.parameter)
    report(lambda: answer, lambda: size_tables.scaling_tables(title, words, scaled))
    for name, values in scaled.violations.items():
        if n_broken := int((values > 0).sum()):
            say(f"warning: {n_broken} of {len(values)} values break the limit {name!r}")
    messages = [scaled.metrics[f"{phase}_collective_s"] for phase in ("prefill", "decode")]
    if axis.startswith("link-") and not np.any(messages):
        say("note: no messages are sent, so links change nothing; split the model, as by --tp 8")

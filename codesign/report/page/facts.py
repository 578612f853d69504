"""The head of a page: what was asked, how far the search came, what the numbers depend on."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from html import escape
from typing import Any

from codesign.answers.json_values import plain_value
from codesign.base.columns import Fields, StringDict, StringList, StringMap, Strings
from codesign.base.text import duration_words
from codesign.insight.plateaus import FoldedFront
from codesign.models.workload import list_models, list_traces, load_trace
from codesign.report.labels import (
    listed_words,
    metric_title,
    percent,
    setting_words,
    spaced_name,
)
from codesign.report.library_tables import size_text
from codesign.report.limit_lines import limit_words
from codesign.report.page.carried_designs import Carried
from codesign.report.picks import best_words
from codesign.report.result_tables import reference_text
from codesign.report.tables import format_cell
from codesign.search.campaign import CampaignStatus, Results

_MOST_REASONS = 5


def state_text(results: Results, status: CampaignStatus) -> str:
    """Warning before believing the page; empty if the campaign is complete."""
    done = f"{status.done:,} of {status.total:,} designs evaluated"
    if results.is_enumerated:
        return ""
    if status.state == "running":
        return f"Still running: {done}. The page shows what was stored when it was written."
    if status.state in ("stopped", "not started"):
        again = f"codesign run {results.definition.asked_as}"
        return f"Not finished: {done}. “{again}” goes on from there."
    return ""


def empty_text(results: Results) -> str:
    """Reason for a missing front; empty if there is one."""
    if not len(results):
        return "No design has been evaluated yet."
    if results.feasible.any():
        return ""
    if results.failed.all():
        return "Every evaluation failed; the reasons are under “What the numbers depend on”."
    return (
        f"None of the {len(results):,} evaluated designs keeps every limit. "
        "The table lists the designs that break a limit."
    )


def question_text(results: Results) -> str:
    """The campaign's question, in one sentence."""
    definition = results.definition
    problem = results.problem
    titles = [metric_title(objective.metric) for objective in problem.objectives]
    limits = [limit_words(problem, constraint) for constraint in problem.constraints]
    if len(titles) > 1:
        question = f"Which designs trade {titles[0]} against {listed_words(titles[1:])} best"
    else:
        question = f"Which design has the {best_words(problem.objectives[0])}"
    settings = dict(definition.workload)
    model, trace, phase = (settings.pop(key, "") for key in ("model", "trace", "phase"))
    subject = " ".join(filter(None, [_model_title(str(model)), str(phase)]))
    rest = [_trace_title(str(trace))] if trace else []
    rest += [
        f"{spaced_name(setting)} sessions"
        if key == "session" and isinstance(setting, str)
        else setting
        if isinstance(setting, str) and not subject
        else f"{'a ' * isinstance(setting, list)}{key.replace('_', ' ')} {_plain(setting)}"
        for key, setting in settings.items()
    ]
    listed = ", ".join(rest)
    work = f"{subject} ({listed})" if subject and listed else subject or listed
    phrases = [
        question,
        f" for {work}" if work else "",
        f", {listed_words(limits)}" if limits else "",
    ]
    return "".join(phrases) + "?"


_MODEL_WORDS = {"gpt": "GPT", "deepseek": "DeepSeek", "llada": "LLaDA"}


def _model_title(name: str) -> str:
    """A model of the library as its makers write it; any other as it is."""
    if name not in list_models():
        return name
    return "-".join(
        _MODEL_WORDS.get(word, word.upper() if re.fullmatch(r"a?\d+b", word) else word.capitalize())
        for word in name.split("-")
    )


def _trace_title(name: str) -> str:
    """A trace as its description spells it."""
    if name not in list_traces():
        return name
    words = load_trace(name).description.replace(",", " ").split()
    return next((word for word in words if word.lower() == name), name)


def facts(results: Results, status: CampaignStatus) -> StringDict:
    """The campaign in names and values."""
    definition = results.definition
    space = results.problem.space
    search = {
        "optimizers": ", ".join(definition.labels),
        "budget": f"{definition.budget:,} designs a run, the first {definition.initial:,} shared",
        "evaluated": f"{len(results):,}, of which {results.feasible.sum():,} keep every limit "
        f"and {results.broke.sum():,} failed",
        "seeds": ", ".join(map(str, definition.seeds)),
        **({"front": results.front_words} if results.shows_means else {}),
    }
    seconds = sum(run.seconds for run in status.runs)
    entries = {
        "space": f"{space.name}, {size_text(space)} designs",
        "workload": _settings_text(definition.workload),
        "constraints": ", ".join(
            re.sub(r"\w*_\w+", lambda name: setting_words(name[0], None)[0], text)
            .replace("<=", "at most")
            .replace(">=", "at least")
            for text in [
                *(limit_words(results.problem, x) for x in results.problem.constraints),
                *(x.text for x in space.constraints),
            ]
        )
        or "none",
        "fixed": _settings_text(definition.fixed) or "nothing",
        **({} if results.is_enumerated else search),
        "time": f"{duration_words(seconds)} of computing, all runs together" if seconds else "",
        "versions": ", ".join(f"{name} {number}" for name, number in results.versions.items()),
        "digest": f"{digest(results)} (SHA-256 of the definition and all that it names)",
    }
    return {name: value for name, value in entries.items() if value}


def digest(results: Results) -> str:
    """First 16 digits of the SHA-256 of what was asked: equal where a campaign is the same.

    Of the definition, and of the space, evaluator, objectives and constraints that its names
    stood for. It depends on neither dates nor machines nor the number of designs evaluated.
    """
    inputs = {
        "definition": plain_value(results.definition),
        "problem": plain_value(results.problem.provenance()),
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


def _settings_text(settings: Fields) -> str:
    """Keys with their values, as a reader would say them."""
    return ", ".join(
        f"{setting_words(key, None)[0]} {_plain(setting)}" for key, setting in settings.items()
    )


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple) and all(isinstance(entry, Mapping) for entry in value):
        return "of " + listed_words([
            f"{share if isinstance(share := entry['share'], str) else percent(share)} "
            f"{spaced_name(entry.get('session') or entry.get('trace'))} on "
            f"{_model_title(entry['model'])}"
            for entry in value
        ])  # fmt: skip
    return f"{value:,}" if type(value) is int else format_cell("", value)


def dependencies(results: Results, carried: Carried) -> StringList:
    """Sentences on what is shown and what the numbers depend on."""
    phrases = [
        ("designs on the front", carried.n_front, carried.of_front),
        ("dominated designs", carried.n_feasible - carried.n_front,
         carried.of_feasible - carried.of_front),
        ("designs that break a limit", carried.n_broken, carried.of_broken),
    ]  # fmt: skip
    thinned = [f"{n:,} of {most:,} {name}" for name, n, most in phrases if n < most]
    sentences = [
        reference_text(results),
        f"The page has {' and '.join(thinned)}, evenly spaced along the first objective; "
        "“codesign export” writes all of them."
        if thinned
        else f"The page has all {len(carried.positions):,} distinct designs with a result.",
    ]
    reasons = Counter(
        (results.status_word(position), reason) for position, reason in results.reasons.items()
    )
    sentences += [
        f"{n:,} evaluations failed{'' if state == 'failed' else f' ({state})'}: {reason}"
        for (state, reason), n in reasons.most_common(_MOST_REASONS)
    ]
    return [text for text in sentences if text]


def pairs_html(pairs: StringMap) -> str:
    """Names and values as the inside of a definition list."""
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in pairs.items()
    )


def paragraphs_html(texts: Strings, role: str = "") -> str:
    """Paragraphs; a role tells readers' software that they matter."""
    attribute = f' role="{escape(role)}"' if role else ""
    return "".join(f"<p{attribute}>{escape(text)}</p>" for text in texts if text)


def summary_text(results: Results, carried: Carried, folded: FoldedFront) -> str:
    """Origin of the front, in one sentence."""
    n = carried.of_front
    if not n:
        return ""
    choose = f"; {len(folded.kept):,} to choose from." if len(folded.kept) < n else "."
    if results.exact is not None:
        n_points = len(results.exact)
        return f"Exact front of {results.exact.n_designs:,} designs: {n_points:,} points{choose}"
    return (
        f"Best of {len(results):,} evaluated designs: {n:,} on the front{choose} Better ones may "
        f"exist; “codesign enumerate {results.definition.asked_as}” finds the exact front."
    )

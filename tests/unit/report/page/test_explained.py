"""Explained designs of a page, and the room that they take."""

import base64
import gzip
import json

import numpy as np
import pytest

from codesign import api
from codesign.base.errors import InputError, JobError, UnknownNameError
from codesign.base.evaluator import Explanation
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.insight.uncertainty.uncertainty_results import Swing
from codesign.report.marked_designs import MarkedDesigns
from codesign.report.page import explained as module
from codesign.report.page.carried_designs import carry
from codesign.report.page.explained import Explained, Explainer, parse_design_numbers


def _unpacked(text):
    return json.loads(gzip.decompress(base64.b64decode(text)))


@pytest.fixture
def asked():
    """The designs that were explained."""
    return []


@pytest.fixture
def explained(results, asked):
    """Accounts of designs without anything in them."""

    def make(numbers=(), named=None, knees=(), vary=None, explain=None):
        def blank(design):
            asked.append(design)
            said = Explanation({}, {}, [], [], [], [str(len(asked))])
            return EvaluatedDesign(
                results.problem.space, results.problem.evaluator, {}, design, {}, said, {}
            )

        explainer = Explainer(explain or blank, vary)
        return Explained(results, carry(results), named, numbers, knees, explainer)

    return make


def _named(results, *names):
    designs = [results.problem.space.designs.get(name, {}) for name in names]
    return MarkedDesigns(names, {}, np.ones(len(names), dtype=bool), designs)


def test_every_design_of_the_front_is_explained_once(explained, results, asked):
    found = explained()
    text = found.packed_charts(1e6)
    n = len(results.front())
    assert list(_unpacked(text)) == [str(i) for i in range(n)]
    assert asked == [results.design(int(at)) for at in results.front()]
    found.packed_charts(1e6)
    assert len(asked) == n


def test_what_does_not_fit_is_left_out_evenly_but_never_what_was_asked_for(explained, results):
    n = len(results.front())
    beyond = n + 3
    found = explained(numbers=[beyond], named=_named(results, "Base"), knees=[1])
    n_page = len(found.carried.positions)
    whole = len(found.packed_charts(1e6))
    cut = _unpacked(found.packed_charts(whole - 40))
    assert {"0", "1", str(n - 1), str(beyond), str(n_page)} <= set(cut)
    assert len(cut) < n + 2 and len(found.packed_charts(whole - 40)) <= whole - 40
    assert set(_unpacked(found.packed_charts(0.0))) == {"1", str(beyond), str(n_page)}


def test_a_very_long_front_is_explained_in_part(explained, results, monkeypatch):
    monkeypatch.setattr(module, "MOST_EXPLAINED", 3)
    n = len(results.front())
    assert list(_unpacked(explained().packed_charts(1e6))) == [
        "0",
        str(round((n - 1) / 2)),
        str(n - 1),
    ]


def test_a_design_that_cannot_be_explained_is_left_unexplained(explained, results):
    tried = []

    def refuse(design):
        tried.append(design)
        raise JobError("no")

    assert _unpacked(explained(explain=refuse).packed_charts(1e6)) == {}
    assert len(tried) == len(results.front())


def test_each_design_gets_its_own_swings(explained, results):
    def vary(designs):
        return [
            {"tdp_watts": [Swing("hbf", "capacity", float(i), 0.0, 1.0, None)]}
            for i in range(len(designs))
        ]

    accounts = explained(vary=vary).accounts(1_000)
    lows = [account.swings["tdp_watts"][0].at_low for account in accounts.values()]
    assert lows == [float(i) for i in range(len(results.front()))]


def test_designs_are_asked_for_as_the_page_names_them(results):
    carried, named = carry(results), _named(results, "Base")
    n = len(carried.positions)
    names = ["1", "#2", "design 30", "Base"]
    assert parse_design_numbers(names, carried, named) == [0, 1, 29, n]


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("0", InputError, "expected 1 to"),
        ("99999", InputError, "got 99999"),
        ("bse", UnknownNameError, "Did you mean 'Base'"),
        ("H100", UnknownNameError, "unknown design 'H100'"),
        ("-3", UnknownNameError, "1 to"),
    ],
)
def test_a_design_that_is_not_on_the_page_is_named(results, name, error, said):
    with pytest.raises(error, match="--design") as raised:
        parse_design_numbers([name], carry(results), _named(results, "Base"))
    assert said in str(raised.value)


def test_an_account_of_an_ordinary_design_takes_less_than_eight_kilobytes(results):
    def explain(design):
        return api.evaluate(
            design=design, space=results.problem.space, evaluator=results.problem.evaluator
        )

    found = Explained(results, carry(results), None, [], [], Explainer(explain))
    assert len(found.packed_charts(1e6)) / len(results.front()) < 8_000

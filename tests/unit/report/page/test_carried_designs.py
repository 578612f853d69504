"""Which designs a page carries."""

import numpy as np
import pytest

from codesign.report.page.carried_designs import carry, design_document, parameter_document


def _distinct(results, positions):
    return {results.rows[position].tobytes() for position in positions.tolist()}


def test_every_distinct_design_with_a_result_is_there_once(results):
    carried = carry(results)
    wanted = {row.tobytes() for row in results.rows[~results.failed]}
    assert _distinct(results, carried.positions) == wanted
    assert len(carried.positions) == len(wanted) < len(results)


def test_the_front_comes_first_then_the_feasible_then_what_breaks_a_limit(results):
    carried = carry(results)
    assert carried.positions[: carried.n_front].tolist() == results.front().tolist()
    assert results.feasible[carried.positions[: carried.n_feasible]].all()
    assert not results.feasible[carried.positions[carried.n_feasible :]].any()
    assert 0 < carried.n_broken == carried.of_broken


def test_a_thinned_page_keeps_the_whole_front_and_evenly_spaced_others(results):
    whole = carry(results)
    most = whole.n_front + 25
    thinned = carry(results, most)
    assert len(thinned.positions) == most
    assert thinned.positions[: thinned.n_front].tolist() == results.front().tolist()
    assert (thinned.of_feasible, thinned.of_broken) == (whole.of_feasible, whole.of_broken)
    assert set(thinned.positions.tolist()) <= set(whole.positions.tolist())
    for start, end, of_start, of_end in (
        (thinned.n_front, thinned.n_feasible, whole.n_front, whole.n_feasible),
        (thinned.n_feasible, most, whole.n_feasible, len(whole.positions)),
    ):
        of = whole.positions[of_start:of_end]
        of = of[np.argsort(results.objectives[of, 0], kind="stable")]
        ranks = np.flatnonzero(np.isin(of, thinned.positions[start:end]))
        assert len(ranks) == end - start < len(of)
        assert (ranks[0], ranks[-1]) == (0, len(of) - 1)
        assert np.ptp(np.diff(ranks)) <= 1


def test_of_many_observations_ten_thousand_designs_are_carried(make_results):
    results = make_results(6_000, optimizers=("random",), seeds=(0, 1, 2, 3))
    carried = carry(results)
    assert len(results) == 24_000 and len(carried.positions) == 10_000
    assert carried.n_front == carried.of_front == len(results.front())
    assert carried.of_feasible + carried.of_broken > 12_000


def test_a_failed_design_is_not_carried(results, with_observations):
    failed = np.zeros(len(results), dtype=bool)
    failed[np.flatnonzero(~results.feasible)[0]] = True
    same = (results.rows == results.rows[failed]).all(axis=1)
    objectives = np.where(same[:, None], np.nan, results.objectives)
    changed = with_observations(results, objectives=objectives)
    assert not _distinct(changed, carry(changed).positions) & {results.rows[failed][0].tobytes()}


def test_the_columns_hold_the_settings_and_the_very_numbers(results):
    carried = carry(results)
    found = design_document(results, carried, None)
    decoded = results.problem.space.decode(results.rows[carried.positions])
    stacks = next(item for item in found["parameters"] if item["name"] == "tier1_stacks")
    shown = [stacks["values"][code] for code in stacks["codes"]]
    assert shown == [str(design["tier1_stacks"]) for design in decoded]
    wanted = results.metrics["tdp_watts"][carried.positions]
    assert found["values"]["tdp_watts"].tolist() == wanted.tolist()


def test_what_breaks_a_limit_says_which_and_by_how_much(results):
    carried = carry(results)
    notes = design_document(results, carried, None)["notes"]
    hot = next(i for i, text in enumerate(notes) if text.startswith("It breaks TDP"))
    over = results.metrics["tdp_watts"][carried.positions[hot]] / 700 - 1
    assert hot >= carried.n_feasible
    assert notes[hot] == f"It breaks TDP at most 700 W (by {100 * over:.1f} %)."


def test_a_dominated_design_says_by_which_of_the_front(results):
    carried = carry(results)
    notes = design_document(results, carried, None)["notes"]
    assert notes[: carried.n_front] == [""] * carried.n_front
    place = next(i for i, text in enumerate(notes) if text.startswith("It is dominated by #"))
    number = int(notes[place].partition("#")[2].split(",")[0].split(" ")[0])
    mine, other = (results.objectives[carried.positions[i]] for i in (place, number - 1))
    assert (other <= mine).all() and (other < mine).any()


@pytest.mark.parametrize(
    ("values", "order"),
    [
        ([8, None, 16, 2], ["", "2", "8", "16"]),
        (["lpddr6", "hbf"], ["hbf", "lpddr6"]),
        ([(2048, 64), (512, 128), (128, 128)], ["128x128", "512x128", "2048x64"]),
    ],
)
def test_values_are_ordered_as_people_would(values, order):
    ordered = parameter_document("p", values)["values"]
    assert sorted(ordered) == sorted(order)
    assert ordered == order


def test_what_a_link_does_is_in_its_unit():
    document = parameter_document("handover_energy_joules_per_byte", [None, 1.04e-11])
    assert document["title"] == "handover energy"
    assert document["values"] == ["", "1.3 pJ/bit"]

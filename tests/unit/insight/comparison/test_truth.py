"""Of which problems the exact front is known without listing their space."""

import pytest

from codesign.insight.comparison.truth import published_truth
from codesign.search.campaign.campaign_definition import load_definition
from codesign.search.campaign.reference import minimized
from codesign.search.problems.problem_records import published


@pytest.mark.parametrize("name", ["unused-osy", "zdt1-30", "platform-rag"])
def test_a_problem_of_the_public_set_has_its_published_front(name):
    definition, record = load_definition(f"problem-{name}"), published()[name]
    point = definition.reference_point
    truth = published_truth(definition.problem, point)
    assert truth is not None and truth.kind == "exact"
    assert (truth.n_designs, len(truth.objectives)) == (record.n_designs, record.front_points)
    volume = truth.hypervolume(minimized(definition.problem, point))
    assert volume == pytest.approx(record.hypervolume)


def test_a_problem_that_differs_in_anything_has_none():
    definition = load_definition("problem-unused-osy")
    point = {**definition.reference_point, "f1": 1.0}
    assert published_truth(definition.problem, point) is None

"""What was found is read with the names and values of its day, whatever today's files say."""

from codesign.search.campaign import Campaign
from codesign.search.campaign.store_file import open_store
from codesign.search.campaign.stored_inputs import StoredEvaluator


def finished(path):
    campaign = Campaign.load(path)
    campaign.run(1)
    return campaign


def decoded(results):
    return [results.problem.space.decode(row)[0] for row in results.rows]


def test_designs_of_a_space_that_has_changed_are_read_as_they_were(write, folder):
    path = write(seeds=1, optimizers=["toy-random"], fixed=None)
    campaign = finished(path)
    before = decoded(campaign.front_results())
    space = folder / "spaces" / "square.yaml"
    space.write_text(space.read_text().replace("high: 29}\n  y", "high: 40}\n  z"), "utf-8")
    space.write_text(space.read_text().replace("x * y", "x * z"), "utf-8")
    results = Campaign.load(path).front_results()
    assert isinstance(results.problem.evaluator, StoredEvaluator)
    assert decoded(results) == before
    assert set(before[0]) == {"x", "y", "kind"}
    parameters = {item.name: item for item in results.problem.space.parameters}
    assert parameters["kind"].kind == "categorical" and len(parameters["x"].values) == 30


def test_a_run_is_complete_with_its_budget_and_exhausted_without_designs(write, folder):
    (folder / "spaces" / "few.yaml").write_text("parameters: {x: [0, 1, 2], y: [0, 1]}\n")
    ended = {}
    for name, space in {"enough": "square", "few": "few"}.items():
        campaign = finished(
            write(name=name, space=space, fixed=None, initial=2, budget=12, constraints=[], seeds=1)
        )
        with open_store(campaign.store_path) as store:
            ended[name] = {run.state for run in store.counts()}
    assert ended == {"enough": {"complete"}, "few": {"exhausted"}}

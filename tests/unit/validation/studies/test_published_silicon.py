"""Published dies and prices beside ours."""

from validation.studies import published_dies, published_prices, stack_heat


def test_every_published_die_is_within_the_range_of_the_constants():
    study = published_dies.run()
    assert [row["what"] for row in study.rows if not row["is_within"]] == []
    assert len(study.rows) == 11
    assert all(target["is_met"] for target in study.targets)
    errors = {str(row["what"]).split(",")[0]: row["error"] for row in study.rows}
    assert abs(errors["NVIDIA H100 (GH100)"]) < 0.05
    assert abs(errors["NVIDIA A100 (GA100)"]) < 0.20


def test_every_published_price_is_within_the_range_of_the_constants():
    study = published_prices.run()
    assert [row["what"] for row in study.rows if not row["is_within"]] == []
    totals = [row["error"] for row in study.rows if "total" in row["what"]]
    assert len(totals) == 3 and max(map(abs, totals)) < 0.3  # MI300X + 27 %


def test_hot_spots_are_within_10_kelvin_of_finite_volumes_and_imecs_within_the_range():
    study = stack_heat.run(seed=1, size=4)
    assert [target for target in study.targets if not target["is_met"]] == []
    assert max(abs(row["kelvin"]) for row in study.rows[:-1]) > 0.0

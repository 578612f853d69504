"""Dated prices of memories, shipped and quoted."""

import pytest

from codesign.base.errors import InputError
from codesign.base.records import drop_none
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.models.accounts.memory_prices import price_list
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.space import load_space

LIBRARY = load_library()
QUARTERS = ("2025-Q4", "2026-Q1", "2026-Q2")
SEARCHED = ("hbm3e_8h", "hbm4_12h", "hbf", "gddr6", "gddr7", "lpddr5x", "lpddr6")


@pytest.mark.parametrize("quarter", QUARTERS)
def test_every_quarter_prices_every_memory_that_is_searched_and_says_where_it_was_read(quarter):
    prices = price_list(quarter)
    assert prices.quarter == quarter
    assert "ddr5" in prices.quotes
    for name in SEARCHED:
        quote = prices.quote_of(name)
        assert quote is not None and quote.source, name
        assert prices.priced(LIBRARY)[name].price == quote.price


def test_lpddr_nearly_doubles_over_hbm_in_the_first_quarter_of_2026():
    """TrendForce: about 90 % over the quarter before, whereas contracts of HBM4 stand."""
    before, after = (price_list(quarter).priced(LIBRARY) for quarter in QUARTERS[:2])
    ratios = [x["lpddr5x"].price.typical / x["hbm4_12h"].price.typical for x in (before, after)]
    assert ratios[1] / ratios[0] == pytest.approx(1.9, abs=0.02)


def quoted(tmp_path, text):
    path = tmp_path / "prices.yaml"
    path.write_text(text, "utf-8")
    return str(path)


def test_a_quotation_replaces_what_it_names_and_outputs_name_its_quarter(tmp_path):
    file = quoted(tmp_path, "2026-Q3:\n  hbm4: 30 USD/GB\n2026-Q4:\n  hbm4: 20 USD/GB\n")
    request = Request(model="llama-3-8b", trace="gsm8k", phase="decode")
    space = load_space("memexplorer", {"memtech": LIBRARY.catalog()})
    design = drop_none(space.designs["D2"])
    columns = space.columns(space.encode(design))
    cost = {
        name: NpuEvaluator(request, NpuOptions(prices=name)).explain(columns)
        for name in (None, file)
    }
    memory = {
        name: next(row["usd"] for row in item.costs if row["part"] == "tier1")
        for name, item in cost.items()
    }
    assert memory[file] == pytest.approx(2 * 36 * 20)
    assert memory[None] == pytest.approx(2 * 36 * LIBRARY["hbm4_12h"].price.typical * 1e9)
    assert any("memory prices are from the list of 2026-Q4" in note for note in cost[file].notes)
    assert any("are from the memory files" in note for note in cost[None].notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q: {hbn4: 3 USD/GB}", r"prices\.yaml:1: q\.hbn4: unknown memory 'hbn4'\. Did you mean"),
        ("q: {hbm4: 3 USD}", r"prices\.yaml:1: q\.hbm4\.price: expected a quantity in USD/GB"),
        ("q: 3", r"prices\.yaml:1: q: expected prices of memories by name"),
    ],
)
def test_a_mistake_in_a_quotation_is_told_with_its_place(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        price_list(quoted(tmp_path, text))


def test_an_unknown_quarter_is_refused_with_the_nearest():
    with pytest.raises(InputError, match=r"unknown quarter of prices '2026-Q9'\. Did you mean"):
        price_list("2026-Q9")

"""The die edge that memories take, and what of them the space does not charge, in words."""

import io

import pytest
from rich.console import Console

import codesign
from codesign.base.records import drop_none
from codesign.models.memtech import load_library
from codesign.report.edge import edge_words, memory_edge_mm
from codesign.report.explanation import evaluation_tables
from codesign.report.library_tables import technology_tables


def _evaluated(design, space="memexplorer"):
    return codesign.evaluate(
        space=space, design=design, model="llama-3.3-70b", workload="osworld", phase="prefill"
    )


def _text(parts):
    console = Console(file=io.StringIO(), width=200)
    for part in parts:
        console.print(part)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("design", "words"),
    [
        # MemExplorer Table 1: 11 mm for HBM3E, 15 for HBM4, 8.25 for HBF, 4.1 for LPDDR5X.
        ("Base", "44 of 66 mm"),
        ("H2", "44 of 66 mm; 32.8 mm of LPDDR not charged"),
        ("P2", "30 of 66 mm; 65.6 mm of LPDDR not charged"),
        ("D2", "46.5 of 66 mm; 32.8 mm of LPDDR not charged"),
    ],
)
def test_what_is_not_charged_is_said_beside_what_is(design, words):
    evaluated = _evaluated(design)
    assert edge_words(evaluated) == words
    assert f"Die edge for memory: {words}\n" in _text(evaluation_tables(design, evaluated, 200))


def test_only_lpddr_takes_no_edge_at_all_where_it_is_free():
    tiers = {"tier1_technology": "lpddr6", "tier1_stacks": 8}
    base = drop_none(_evaluated("Base").design)
    assert edge_words(_evaluated(base | tiers)) == "0 of 66 mm; 36 mm of LPDDR not charged"
    del base["uncharged_edge"]
    assert edge_words(_evaluated(base | tiers, "memexplorer-strict")) == "36 of 66 mm"


def test_an_evaluator_that_knows_no_edge_has_no_words_for_it():
    evaluated = codesign.evaluate(
        space="platform-llm", design="HGX-H100", evaluator="platform",
        workload={"model": "llama-3.3-70b", "use_case": "rag-qa"},
    )  # fmt: skip
    assert memory_edge_mm(evaluated) is None
    assert edge_words(evaluated) == ""
    assert "Die edge" not in _text(evaluation_tables("HGX-H100", evaluated, 200))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lpddr6", "reserved for memory, except in spaces with uncharged_edge: LPDDR."),
        ("hbf", "reserved for memory, except in spaces with uncharged_edge: HBF."),
        ("sram", ""),
    ],
)
def test_a_technology_says_by_which_name_a_space_leaves_its_edge_free(name, text):
    shown = _text(technology_tables(load_library()[name]))
    assert text in shown
    assert ("shoreline is charged" in shown) == bool(text)

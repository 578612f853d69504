"""GenZ's public tool, answer by answer, and the numbers of its paper's text."""

import pytest

from codesign.base.errors import InputError
from validation.studies.genz_cases import compare, load_cases, run_case
from validation.studies.genz_study import TOLERANCE, cases, claims, compute

CASES = cases()
CLAIMS = claims()["claims"]
RESIDUAL_TOLERANCE = claims()["residual_tolerance"]


def case_name(case):
    given = case["input"]
    return f"{given['id']}-{given['stage']}-{given['model'].split('/')[-1]}"


@pytest.mark.parametrize("case", [c for c in CASES if c["output"]], ids=case_name)
def test_every_number_of_the_tool_s_answer_comes_out(case):
    rows = list(compare(case))
    assert len(rows) == 18
    for row in rows:
        assert row["error"] == pytest.approx(0.0, abs=TOLERANCE), row["what"]
    assert run_case(case["input"])["offloaded"] == case["output"]["offloaded"]


@pytest.mark.parametrize("case", [c for c in CASES if not c["output"]], ids=case_name)
def test_what_the_tool_refuses_is_refused(case):
    with pytest.raises(InputError, match=r"memory: expected at most .* too much"):
        run_case(case["input"])


def test_the_cases_cover_every_convention():
    given = [case["input"] for case in CASES]
    for name in ("tp", "pp", "ep", "beam"):
        assert any(one.get(name, 1) > 1 for one in given)
    assert {one["bits"] for one in given} == {"bf16", "int8", "fp8", "int4", "fp4"}
    assert any(case["output"] and case["output"]["offloaded"] for case in CASES)
    assert any(one["model_dims"]["heads"] % one["tp"] for one in given)
    assert any(one["batch"] < one["pp"] for one in given)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["what"])
def test_the_paper_s_number_comes_out_or_its_residual_is_as_recorded(claim):
    error = compute(claim) / claim["printed"] - 1.0
    if "tolerance" in claim:
        assert abs(error) <= claim["tolerance"]
    else:
        assert error == pytest.approx(claim["residual"], abs=RESIDUAL_TOLERANCE)


def test_a_file_that_holds_no_cases_is_refused(tmp_path):
    file = tmp_path / "cases.json"
    file.write_text('{"cases": 3}')
    with pytest.raises(InputError, match="expected a list of cases"):
        load_cases(file)

"""The study of measured kernels, on one row in 250."""

import gzip

import numpy as np
import pytest
from scipy import optimize

from codesign.models.hardware.device import load_device
from validation.studies import kernels
from validation.studies.kernel_families import collectives
from validation.studies.kernel_table import KERNELS_FILE, KernelTable, read_kernel_table
from validation.studies.study import DATA


@pytest.fixture(scope="module")
def sample():
    table, _ = kernels.measured_kernels()
    return table.take(np.arange(0, len(table), 250))


@pytest.fixture(scope="module")
def study(sample):
    """Held-out constants after two steps of their fits: no number of theirs is asserted."""
    fit = optimize.least_squares
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            optimize, "least_squares", lambda *x, **settings: fit(*x, **settings | {"max_nfev": 2})
        )
        return kernels.study_of(sample, ["the host waits"], has_folds=True)


def with_text(table, **columns):
    text = {name: np.full(len(table), value) for name, value in columns.items()}
    return KernelTable(table.text | text, table.lines)


def test_every_row_is_compared_or_left_out_with_a_reason(sample, study):
    left = [note for note in study.notes if " rows left out: " in note]
    n_left = sum(int(note.split(" ", 1)[0].replace(",", "")) for note in left)
    assert len(study.rows) + n_left == len(sample) + 1  # and the row that the reader omitted
    assert "1 rows left out: the host waits." in left
    blocks = {"blocks of latent attention"}  # of sparse attention the sample has no row
    assert {row["group"] for row in study.rows} == set(kernels.FAMILIES) | blocks
    for row in study.rows:
        assert row["error"] == pytest.approx(row["ours"] / row["reference"] - 1)


def test_every_family_has_a_target_for_unseen_geometries_and_for_unseen_devices(
    study,
):
    names = [target["what"] for target in study.targets]
    for family in kernels.FAMILIES:
        words = family.replace("_", " ")
        assert f"median error, {words}, geometry held out" in names
        devices = {row["device"] for row in study.rows if row["group"] == family}
        has_folds = f"median error, {words}, device held out, others of its chip kept" in names
        assert has_folds == (len(devices) > 1)
        chips = {load_device(device).measured_name for device in devices}
        assert (f"median error, {words}, chip held out" in names) == (len(chips) > 1)
    medians = [target for target in study.targets if target["what"].startswith("median error")]
    for target in medians:
        assert target["is_met"] == (
            target["measured"] <= float(target["target"].strip("<= %")) / 100
        )


def test_most_medians_are_better_than_a_bare_roofline(study):
    errors = {
        name: np.median([abs(row["error"]) for row in study.rows if row["group"] == name])
        for name in kernels.FAMILIES
    }
    bounds = {
        name: np.median(
            [abs(row["roofline"] / row["reference"] - 1) for row in study.rows
             if row["group"] == name]
        )
        for name in kernels.FAMILIES
    }  # fmt: skip
    assert all(errors[name] < bounds[name] for name in kernels.FAMILIES)


def test_groups_that_a_bare_roofline_predicts_better_are_counted():
    sizes = {"median": 0.1, "law": 0.3, "held_out": None, "roofline": 0.2}
    near = {f"{name}_absolute_error": size for name, size in sizes.items()}
    other = near | {"median_absolute_error": 0.5, "held_out_absolute_error": 0.15}
    counted = {
        target["what"].split(", ")[1]: (target["measured"], target["is_met"])
        for target in kernels._roofline_targets([near, other])
    }
    assert counted == {
        "predictions at least as near as a bare roofline": ("1 of 2", False),
        "laws alone at least as near as a bare roofline": ("0 of 2", False),
        "with the device held out at least as near as a bare roofline": ("1 of 1", True),
    }


@pytest.mark.parametrize("name", kernels.FAMILIES)
def test_a_family_leaves_out_rows_of_others_and_rows_without_columns(name, sample):
    family = kernels.family_of(name)
    bare = KernelTable(
        {name: sample.words(name) for name in ("device", "operator", "latency_s")}, sample.lines
    )
    empty = sample.take(np.zeros(len(sample), dtype=np.bool_))
    for table in (sample, bare, empty, with_text(sample, device="abacus")):
        reasons = family.left_out(table)
        others = ~np.isin(table.words("operator"), family.operators)
        assert (reasons[others] != "").all()
        for seconds in (family.predict(table), family.roofline_s(table)):
            assert (np.isnan(seconds) == (reasons != "")).all()
    assert (family.left_out(bare) != "").all()
    assert 0 < family.target <= 0.2


def test_an_unknown_operator_is_named(sample):
    study = kernels.study_of(with_text(sample, operator="fft"), (), has_folds=False)
    assert study.rows == []
    assert f"{len(sample):,} rows left out: operator fft is not modeled." in study.notes


def test_a_missing_batch_is_left_out_and_never_taken_for_one():
    table = read_kernel_table().operator_rows(["attention_decode"])
    table = table.take(np.flatnonzero(table["batch"] == 1)[:5])
    study = kernels.study_of(with_text(table, batch=""), (), has_folds=False)
    assert study.rows == []
    assert "5 rows left out: batch is not stated." in study.notes
    assert len(kernels.study_of(table, (), has_folds=False).rows) == 5


def test_a_table_of_a_user_is_compared_without_fits(tmp_path):
    lines = gzip.decompress(KERNELS_FILE.read_bytes()).decode("utf-8").splitlines()
    path = tmp_path / "own.csv"
    path.write_text("\n".join([lines[0], *lines[1::500]]), encoding="utf-8")
    study = kernels.compare(path)
    assert study.rows
    assert not any("held_out" in row or "chip_held_out" in row for row in study.rows)
    assert not any("held out" in target["what"] for target in study.targets)


def test_collectives_of_unseen_cards_on_pcie_are_within_20_percent_in_the_median():
    table = read_kernel_table(DATA / "pcie_collectives.csv")
    errors = np.abs(kernels.relative_errors(table, collectives.FAMILY.predict(table)))
    for operator in set(table.words("operator")):
        for n in (2.0, 4.0, 8.0):
            is_selected = (table.words("operator") == operator) & (table["devices"] == n)
            assert np.median(errors[is_selected]) < 0.2, (operator, n)


def test_the_profile_of_a_layer_is_part_of_the_study():
    table, reasons = kernels.measured_kernels()
    assert "microsoft/vidur" in set(table.words("framework").tolist())
    assert "the host starts each operator and waits for it" in reasons

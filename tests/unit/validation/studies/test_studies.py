"""The studies that can be asked for by name."""

from importlib import import_module

import pytest
import yaml

from validation.studies.device_pools import DATA
from validation.studies.prompt_caches import answers
from validation.studies.studies import STUDIES, WITH_TABLES


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_module_that_runs_it_or_compares_a_table(name):
    module = import_module(f"validation.studies.{STUDIES[name]}")
    assert callable(module.run)
    assert name not in WITH_TABLES or callable(module.compare)


def test_dram_behind_a_server_of_agents_is_worth_what_was_published_within_25_percent():
    metrum = yaml.safe_load((DATA / "prompt_caches.yaml").read_text(encoding="utf-8"))[0]
    hbm, dram = (answers(metrum, row)["USD per million tokens"] for row in metrum["rows"][:2])
    assert hbm / dram == pytest.approx(30.30 / 11.38, rel=0.25)

"""The studies that can be asked for by name."""

from importlib import import_module

import pytest

from validation.studies.studies import STUDIES, WITH_TABLES


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_module_that_runs_it_or_compares_a_table(name):
    module = import_module(f"validation.studies.{STUDIES[name]}")
    assert callable(module.run)
    assert name not in WITH_TABLES or callable(module.compare)

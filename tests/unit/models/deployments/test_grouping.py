"""Designs are grouped by the degrees of parallelism that they state."""

import numpy as np
import pytest

from codesign.base.columns import column_of
from codesign.base.errors import InputError
from codesign.models.deployments.grouping import groups, has_degrees
from codesign.models.deployments.parallelism import Parallelism


def test_designs_of_equal_degrees_are_one_group_without_these_columns():
    designs = {
        "pe_array": column_of(["a", "b", "c", "d"]),
        "tensor_parallel": column_of([4, 1, 4, None]),
    }
    found = {
        parallelism: (positions.tolist(), columns["pe_array"].decoded(), sorted(columns))
        for parallelism, positions, columns in groups(designs)
    }
    assert found == {
        Parallelism(1, 1): ([1, 3], ["b", "d"], ["pe_array"]),
        Parallelism(4, 1): ([0, 2], ["a", "c"], ["pe_array"]),
    }
    assert has_degrees(designs)
    assert not has_degrees({"pe_array": designs["pe_array"]})


@pytest.mark.parametrize("value", [0, 1.5, "four", True, -2, np.nan])
def test_a_degree_that_is_no_whole_number_is_refused(value):
    designs = {"pe_array": column_of(["a"]), "pipeline_parallel": column_of([value])}
    with pytest.raises(InputError, match="pipeline_parallel: expected a whole number of devices"):
        list(groups(designs))

"""Trace files of requests, and arrivals that are drawn."""

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.models.deployments.queueing import poisson_arrivals, read_arrivals
from codesign.models.deployments.queueing.block_pool import BlockPool

HEADER = "arrival_s,prompt_tokens,generated_tokens\n"


def test_a_trace_file_is_read_whatever_the_order_of_its_columns(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("user,generated_tokens,arrival_s,prompt_tokens\na,3,0.5,10\nb,4,0.5,20\n")
    arrivals = read_arrivals(path)
    assert arrivals.arrival_s.tolist() == [0.5, 0.5]
    assert arrivals.prompt_tokens.tolist() == [10, 20]
    assert arrivals.generated_tokens.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("arrival_s,prompt\n1,2\n", "1: no column prompt_tokens, generated_tokens"),
        ("", "1: no column arrival_s, prompt_tokens, generated_tokens"),
        (HEADER, "expected at least one request, got none"),
        (HEADER + "0,1,1\n-1,1,1\n", "3: arrival_s: expected a time from 0, got -1"),
        (HEADER + "nan,1,1\n", "2: arrival_s: expected a time from 0, got nan"),
        (HEADER + "2,1,1\n1,1,1\n", "3: arrival_s: expected times that do not fall, got 1 after 2"),
        (
            HEADER + "0,1.5,1\n",
            "2: prompt_tokens: expected a whole number from 1 to 1,000,000,000",
        ),
        (
            HEADER + "0,1,0\n",
            "2: generated_tokens: expected a whole number from 1 to 1,000,000,000",
        ),
        (HEADER + "0,1e300,1\n", "2: prompt_tokens: expected a whole number from 1 to"),
        (HEADER + "0,1," + "1" * 200_000, "2: field larger than field limit (131072)"),
        (HEADER + "0,one,1\n", "2: prompt_tokens: expected a number, got 'one'"),
        (HEADER + "0,1\n", "2: generated_tokens: expected a number, got 'nothing'"),
    ],
)
def test_a_wrong_trace_file_is_refused_where_it_is_wrong(tmp_path, text, words):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_arrivals(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_trace_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_arrivals(tmp_path / "none.csv")


def test_drawn_arrivals_have_their_rate_and_one_pattern_at_all_rates():
    slow, fast = (poisson_arrivals(rate, 4000, 5, 6, seed=0) for rate in (2.0, 8.0))
    assert slow.arrival_s == pytest.approx(4 * fast.arrival_s)
    assert 4000 / slow.arrival_s[-1] == pytest.approx(2.0, rel=0.05)
    gaps = np.diff(slow.arrival_s)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)


def test_blocks_are_handed_out_in_the_order_in_which_they_came_back():
    pool = BlockPool(4)
    pool.take(4)
    pool.give_back(2, owner=1)
    pool.give_back(2)
    pool.take(1)
    assert (pool.n_free, pool.reclaim(1), pool.n_free) == (3, 1, 2)
    assert pool.reclaim(1) == 0
    pool.give_back(2, owner=1)
    pool.take(4)
    assert (pool.n_free, pool.reclaim(1)) == (0, 0)

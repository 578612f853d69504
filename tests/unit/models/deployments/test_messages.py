"""Messages of a pass, against the collectives added up one by one."""

import numpy as np
import pytest

from codesign.models.deployments import Messages, Parallelism
from codesign.models.hardware.collective_times import (
    Link,
    all_gather_s,
    all_reduce_s,
    point_to_point_s,
)

LINK, WARM_UP_S = Link(450e9, 1e-6), 5e-6


def messages(tensor=4, pipeline=2, sent=8192.0, exchanged=()):
    return Messages(
        Parallelism(tensor, pipeline),
        all_reduce_elements=np.array([8192.0, 4096.0]),
        all_reduce_count=np.array([160.0, 3.0]),
        all_gather_elements=np.array([128256.0]),
        all_gather_count=np.array([1.0]),
        exchange_elements=np.array(exchanged),
        exchange_count=np.full(len(exchanged), 58.0),
        sent_elements=sent,
    )


@pytest.mark.parametrize("requests", [1.0, 48.0])
@pytest.mark.parametrize("element_bytes", [0.5, 2.0])
def test_a_pass_takes_as_long_as_its_messages_one_after_the_other(requests, element_bytes):
    each = requests * element_bytes
    group = (4, 1, LINK, LINK, WARM_UP_S)
    expected = (
        160 * all_reduce_s(8192 * each, *group)
        + 3 * all_reduce_s(4096 * each, *group)
        + all_gather_s(128256 * each, *group)
        + point_to_point_s(8192 * each, LINK, WARM_UP_S)
    )
    seconds = (
        messages()
        .link_time(LINK, WARM_UP_S)
        .seconds(np.array([requests]), np.array([element_bytes]))
    )
    np.testing.assert_allclose(seconds, expected, rtol=1e-12)


def test_a_device_sends_what_a_ring_has_it_send():
    sent = messages().link_time(LINK, WARM_UP_S).sent_bytes(np.array([2.0]), np.array([1.0]))
    reduced = 160 * 8192 + 3 * 4096
    np.testing.assert_allclose(sent, 2 * (3 / 4 * (2 * reduced + 128256) + 8192))


def test_one_device_alone_sends_nothing():
    alone = messages(tensor=1, pipeline=1, sent=0.0).link_time(LINK, WARM_UP_S)
    assert (alone.fixed_s, alone.byte_s, alone.sent_elements) == (0, 0, 0)


def test_tokens_travel_to_their_experts_with_one_latency_whatever_their_number():
    here, away = messages(), messages(exchanged=[7168.0 * 5, 7168.0 * 3])
    requests, element_bytes = np.array([48.0]), np.array([1.0])
    added, sent = (
        getattr(away.link_time(LINK, WARM_UP_S), name)(requests, element_bytes)
        - getattr(here.link_time(LINK, WARM_UP_S), name)(requests, element_bytes)
        for name in ("seconds", "sent_bytes")
    )
    np.testing.assert_allclose(sent, 58 * 8 * 7168 * 48)
    np.testing.assert_allclose(added, 58 * 2 * (WARM_UP_S + 1e-6) + sent / 450e9)
    assert away.n_messages == here.n_messages + 116


def test_a_pipeline_sends_one_message_to_the_next_stage():
    stage = messages(tensor=1, pipeline=4)
    assert stage.link_time(LINK, WARM_UP_S).fixed_s == pytest.approx(WARM_UP_S + 1e-6)

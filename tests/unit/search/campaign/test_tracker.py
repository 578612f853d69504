"""A tracker hears results and stops nothing."""

from codesign.search.campaign import Tracker


class _Failing(Tracker):
    calls = 0

    def end(self, results):
        self.calls += 1
        raise RuntimeError("no server")


def test_a_tracker_that_fails_is_told_once_and_gets_no_further_results(caplog):
    tracker = _Failing("toy", None)
    tracker.send_end(None)
    tracker.send_end(None)
    (record,) = caplog.records
    assert record.getMessage() == "_Failing gets no further results: RuntimeError('no server')"
    assert tracker.calls == 1

"""Worker processes whose parent is gone before it has said what to do."""

from multiprocessing import Pipe

import pytest

from codesign.search.campaign import campaign_worker
from codesign.search.execution import guard_worker, task_worker


@pytest.mark.parametrize("main", [campaign_worker.main, guard_worker.main, task_worker.main])
def test_a_worker_whose_parent_is_gone_ends_quietly(main):
    parent, child = Pipe()
    parent.close()
    main(child)
    child.close()

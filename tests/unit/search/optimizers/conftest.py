"""Small search problems with everything that optimizers must cope with."""

import numpy as np
import pytest

from codesign.base.catalog import Catalog
from codesign.search.optimizers import SearchSpace
from codesign.search.optimizers.surrogate import load_libraries
from codesign.space import parse_space

MEMORIES = Catalog(
    units={"speed": "GB/s", "cost": "1"},
    entries={
        "fast": {"speed": 8e9, "cost": 9.0},
        "middling": {"speed": 4e9, "cost": 3.0},
        "slow": {"speed": 1e9, "cost": 1.0},
    },
)

TIERED = """
parameters:
  size: {values: [1, 2, 4, 8, 16], scale: log}
  ports: {low: 1, high: 6}
  policy: [lru, fifo, random]
repeated:
  tier:
    minimum: 1
    maximum: 2
    parameters:
      kind: {from: memory}
      count: {values: [1, 2, 4]}
    order: kind.speed * count
derived:
  speed: {value: "sum(tier, kind.speed * count)", unit: GB/s, feature: true}
  cost: {value: "size * ports + sum(tier, kind.cost * count)", feature: true}
constraints:
  - cost <= 60
"""


@pytest.fixture(scope="session")
def tiered():
    """A space with conditional parts and a constraint; a further limit is known in advance."""
    space = parse_space(TIERED, {"memory": MEMORIES}, "tiered.yaml")
    return SearchSpace(space, lambda rows: space.contains(rows) & (rows[:, 2] != 1))


@pytest.fixture(scope="session")
def grid():
    """A function that builds plain spaces: so many integer parameters of so many levels."""

    def build(dimensions, levels):
        lines = [f"  x{i}: {{low: 0, high: {levels - 1}}}" for i in range(dimensions)]
        space = parse_space("\n".join(["parameters:", *lines]), {}, "grid.yaml")
        return SearchSpace(space, space.contains)

    return build


def bowl_values(search, rows, n_objectives=2):
    """(n, m) objectives to minimize, each with its own best corner, all positive."""
    points = search.space.points(rows)
    targets = np.linspace(0.1, 0.9, n_objectives)
    return 0.1 + ((points[:, :, None] - targets) ** 2).sum(axis=1)


def tell_bowls(optimizer, search, rows, n_objectives=2):
    """Tell feasible results of designs."""
    values = bowl_values(search, rows, n_objectives)
    optimizer.tell(rows, values, np.zeros((len(rows), 0)), np.zeros(len(rows), dtype=bool))


@pytest.fixture(scope="session")
def bowls():
    """:func:`bowl_values`."""
    return bowl_values


@pytest.fixture(scope="session")
def tell():
    """:func:`tell_bowls`."""
    return tell_bowls


@pytest.fixture(scope="session")
def gp():
    """PyTorch and BoTorch are there, on one thread: two cost many times one on a busy machine."""
    try:
        load_libraries()
    except ImportError:
        pytest.skip("needs codesign[gp]")
    import torch

    torch.set_num_threads(1)

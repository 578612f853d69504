"""Search algorithms behind one interface: ask for designs, tell what they were worth.

The package knows nothing of hardware. Each algorithm registers in the entry-point group
``codesign.optimizers``; the library that it stands on is imported when it is built.
"""

from codesign.search.optimizers.base import (
    KeySet,
    Optimizer,
    SearchSpace,
    initial_designs,
)

__all__ = ["KeySet", "Optimizer", "SearchSpace", "initial_designs"]

# The static view of the names that __init__.py loads when they are first used.
from codesign.api import *  # noqa: F403
from codesign.search import problems as problems

__version__: str

# The static view of the names that __init__.py loads when they are first used.
from codesign.api import EvaluatedDesign as EvaluatedDesign
from codesign.api import build_evaluator as build_evaluator
from codesign.api import evaluate as evaluate
from codesign.api import load_campaign as load_campaign
from codesign.api import load_library as load_library
from codesign.api import load_model as load_model
from codesign.api import load_space as load_space
from codesign.api import to_frame as to_frame

__version__: str

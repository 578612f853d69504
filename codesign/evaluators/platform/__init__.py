"""The ``platform`` evaluator: inference on several devices with links between them."""

from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.platform_options import PlatformOptions
from codesign.evaluators.platform.platform_request import PlatformRequest

__all__ = ["PlatformEvaluator", "PlatformOptions", "PlatformRequest"]

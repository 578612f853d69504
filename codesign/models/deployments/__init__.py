"""How machines serve a model together: what each of them holds and does, and what they exchange."""

from codesign.models.deployments.messages import LinkTime, Messages
from codesign.models.deployments.model_part import ModelPart, model_part
from codesign.models.deployments.parallelism import SINGLE, Parallelism

__all__ = ["SINGLE", "LinkTime", "Messages", "ModelPart", "Parallelism", "model_part"]

"""Deployments of a model on several machines: the share of each, and the messages between them."""

from codesign.models.deployments.messages import LinkTime, Messages
from codesign.models.deployments.model_part import ModelPart, model_part
from codesign.models.deployments.parallelism import SINGLE, Parallelism

__all__ = ["SINGLE", "LinkTime", "Messages", "ModelPart", "Parallelism", "model_part"]

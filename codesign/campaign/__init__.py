"""Campaigns: a definition, a loop that never loses an observation, a store, and results."""

from codesign.campaign.campaign import (
    Campaign,
    CampaignStatus,
    Interrupted,
    RunStatus,
    list_campaigns,
)
from codesign.campaign.definition import Definition, ResolvedDefinition, load_definition
from codesign.campaign.executor import Progress
from codesign.campaign.observations import Run
from codesign.campaign.results import Results

__all__ = [
    "Campaign",
    "CampaignStatus",
    "Definition",
    "Interrupted",
    "Progress",
    "ResolvedDefinition",
    "Results",
    "Run",
    "RunStatus",
    "list_campaigns",
    "load_definition",
]

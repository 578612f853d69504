"""Campaigns: a definition, a loop that never loses an observation, a store, and results."""

from codesign.campaign.campaign import Campaign, Interrupted
from codesign.campaign.campaign_definition import Definition, ResolvedDefinition, load_definition
from codesign.campaign.executor import Progress
from codesign.campaign.observations import Run
from codesign.campaign.results import Results
from codesign.campaign.status import CampaignStatus, RunStatus, list_campaigns

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

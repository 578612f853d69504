"""Campaigns: a definition, a loop that never loses an observation, a store, and results."""

from codesign.search.campaign.campaign import Campaign, Interrupted
from codesign.search.campaign.campaign_definition import (
    Definition,
    ResolvedDefinition,
    load_definition,
)
from codesign.search.campaign.observations import Run, RunStatus
from codesign.search.campaign.results import Results
from codesign.search.campaign.status import CampaignStatus, list_campaigns
from codesign.search.campaign.tracker import Tracker

__all__ = [
    "Campaign",
    "CampaignStatus",
    "Definition",
    "Interrupted",
    "ResolvedDefinition",
    "Results",
    "Run",
    "RunStatus",
    "Tracker",
    "list_campaigns",
    "load_definition",
]

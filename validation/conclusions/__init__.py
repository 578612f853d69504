"""Conclusions that MemExplorer [MemExplorer]_ draws, tested on exact fronts, with reasons.

.. [MemExplorer] "MemExplorer: memory system synthesis for heterogeneous NPUs"; sections, tables and
   equations are cited where they are used.
"""

from validation.conclusions.answer import Answer, answer_claims
from validation.conclusions.claims import CLAIMS

__all__ = ["CLAIMS", "Answer", "answer_claims"]

"""How evaluations are carried out: from a cache of results, guarded, in several places at once."""

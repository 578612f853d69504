"""Proposals by other libraries, as their documentation shows them, in a process of its own.

It needs no part of codesign but itself, so a library may live in an environment of its own; see
``peer.py`` for who starts it. One JSON document per line on standard input asks for proposals and
says all that is known, a :class:`~codesign.search.optimizers.peer_worker.task.Task`. The answer is
one line: a :class:`~codesign.search.optimizers.peer_worker.task.Proposal`, ``{"missing":
"library"}`` or ``{"error": "..."}``.

A method is a function of the task. What learns by a model alone is built anew from all results:
data and seed are all that it keeps. What advances a population is taken through its generations
again, in the order of the results.
"""

"""The public set of problems with proven fronts, for users of any optimizer.

>>> from codesign import problems
>>> problem = problems.load("re21")
>>> problem.objectives
{'f1': 'minimize', 'f2': 'minimize'}
>>> evaluated = problem.evaluate([{"x1": 0, "x2": 0, "x3": 0, "x4": 0}])
>>> [round(float(value), 4) for value in evaluated.objectives[0]]
[1237.8414, 0.04]
>>> round(float(problem.score(evaluated)[-1]), 4)
0.2786
"""

from codesign.search.problems.public_problem import Evaluated, PublicProblem, load, names

__all__ = ["Evaluated", "PublicProblem", "load", "names"]

"""A point of a design space: array, vector unit and hierarchical memory, in closed form.

What one operator takes on each of ``n`` designs (``operator_stage.py``), and what operators take
together (``pass_time.py``). All formulas run on arrays of designs and, compiled, on numbers.
"""

"""The analytical NPU evaluator: ``npu_evaluator.py`` is its front.

These records carry a design from its row of the columns to its metrics. A record of single numbers
has a form on NumPy arrays and a compiled form.

1. `Preparation` has the data that all designs share: work, technologies, and `Modelling`, the
   options as numbers. It makes `PreparedDesigns`: hardware, formats, feasible batch sizes and the
   order of the tiers, each looked up from the columns when needed.
2. `BatchAndOrderChoice` goes over `Choices`. The formulas take a design as a `StageDesign`. `place`
   gives it a batch size and makes a `PlacedDesign`: the places of its data, and their speed.
3. `operator_cost` computes the traffic and time of a `StageOperator`, `Moved` and `PassTimes`. Its
   `Shape` depends only on array, dataflow and batch size. `WeightGroups` are layers whose weights
   share a format. `PassTotals` are the sums over a pass. `LeastWork` excludes choices that cannot
   be the best. `VectorOperands` are those of the vector unit.
4. `Chosen` keeps the totals of the best choice; `DesignMetrics` computes the requested metrics.

Bounds of partial designs (`PartialDesigns`) take the best values of undecided parameters
(`HardwareExtremes`, `BestInputs`, `ArrayChoice`) and sums over a pass. They hold for every order of
the tiers.
"""

from codesign.evaluators.npu.npu_evaluator import NpuEvaluator
from codesign.evaluators.npu.npu_options import NpuOptions

__all__ = ["NpuEvaluator", "NpuOptions"]

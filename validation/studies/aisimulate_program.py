"""Answers of NVIDIA's AISimulate, run by its own Python: a table of questions in, answers out.

Columns of ``data/aisimulate_questions.csv`` are arguments of ``cli_estimate``: steady continuous
batching, from measured kernels and, where it has none, formulas (``HYBRID``).
"""

import csv
import logging
import sys
from pathlib import Path

# Installed in its own environment alone, where this program runs.
from aisimulate.legacy_cli.api import cli_estimate  # type: ignore[import-not-found] # absent where types are checked: it has its own environment
from aisimulate_core.sdk.common import DefaultHFModels  # type: ignore[import-not-found] # absent where types are checked: it has its own environment

logging.disable(logging.CRITICAL)
print("id,tokens_per_s,refusal")
for row in csv.DictReader(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()):
    case = {name: int(x) if x.isdigit() else x for name, x in row.items() if x and name != "id"}
    DefaultHFModels.add(case["model_path"])  # it has their configurations, and need not download
    try:
        summary = cli_estimate(**case, database_mode="HYBRID").summary.get_summary_df()
        answer = f"{summary['tokens/s'].iloc[0]:.6g},"
    except Exception as error:  # any of its many kinds is its answer
        answer = "," + str(error).replace(",", ";").splitlines()[0][:100]
    print(f"{row['id']},{answer}", flush=True)

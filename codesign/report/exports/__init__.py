"""Results in the formats that other tools load; each file is written whole or not at all.

An export of a campaign is a function ``(results, path, scope) -> path``, registered in the
entry-point group ``codesign.exports`` under the name of its format. ``scope`` is ``front`` (the
non-dominated feasible designs), ``folded`` (those of them that are not folded under a cheaper one)
or ``all`` (every observation). An export of one design is a
function ``(chosen, path) -> Written``, registered in ``codesign.design_exports``.
"""

from codesign.report.exports.journal import write_optuna
from codesign.report.exports.observation_documents import write_json, write_yaml
from codesign.report.exports.observation_tables import (
    write_csv,
    write_excel,
    write_markdown,
    write_parquet,
)

__all__ = [
    "write_csv",
    "write_excel",
    "write_json",
    "write_markdown",
    "write_optuna",
    "write_parquet",
    "write_yaml",
]

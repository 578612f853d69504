"""What plug-ins say of themselves."""

from __future__ import annotations

from codesign.base import plugins
from codesign.report.json_values import to_plain
from codesign.report.library_tables import plugin_document, plugins_table


def test_the_options_of_an_evaluator_are_shown_with_their_defaults() -> None:
    document = plugin_document(plugins.load("evaluators", "system"))
    defaults = {option["name"]: to_plain(option["default"]) for option in document["options"]}
    assert defaults["pools"] == {}
    assert defaults["npu"]["profile"] == "plain"
    options = plugins_table("evaluators", {"system": document}).columns[1]
    assert "npu (options of its own)" in next(iter(options.cells))

"""What plug-ins say of themselves."""

from codesign.answers.json_values import plain_value
from codesign.answers.library import PluginEntry
from codesign.base import plugins
from codesign.report.library_tables import plugins_table


def test_the_options_of_an_evaluator_are_shown_with_their_defaults():
    entry = PluginEntry.describe(plugins.load("evaluators", "system"))
    defaults = {option.name: plain_value(option.default) for option in entry.options}
    assert defaults["pools"] == {}
    assert defaults["npu"]["profile"] == "plain"
    options = plugins_table("Evaluators", {"system": entry}).columns[1]
    assert "npu (options of its own)" in next(iter(options.cells))

"""What optimizers say of themselves is kept with the comparison."""

import json

from codesign.base.errors import MissingExtraError
from codesign.insight.comparison.settings import note_settings, read_settings
from codesign.search.campaign.campaign_definition import ConfiguredOptimizer
from codesign.search.optimizers.sampling import RandomSearch


class Versioned(RandomSearch):
    version = "1"

    @classmethod
    def provenance(cls, options):
        return {"library": f"search {cls.version}", "depth": 3}


class Missing(RandomSearch):
    @classmethod
    def provenance(cls, options):
        raise MissingExtraError("peer 'x'", "peers")


def _configured(**factories):
    return [
        ConfiguredOptimizer(label, "x", factory, factory.Options())
        for label, factory in factories.items()
    ]


def test_settings_are_kept_by_label_and_once_while_they_stay_the_same(tmp_path):
    optimizers = _configured(mine=Versioned, random=RandomSearch)
    note_settings(optimizers, tmp_path, print)
    before = (tmp_path / "optimizers.json").read_bytes()
    note_settings(optimizers, tmp_path, print)
    assert (tmp_path / "optimizers.json").read_bytes() == before
    assert read_settings(tmp_path) == {"mine": [{"library": "search 1", "depth": 3}]}


def test_another_version_is_noted_beside_the_first(tmp_path, monkeypatch):
    note_settings(_configured(mine=Versioned), tmp_path, print)
    monkeypatch.setattr(Versioned, "version", "2")
    note_settings(_configured(mine=Versioned), tmp_path, print)
    (accounts,) = read_settings(tmp_path).values()
    assert [account["library"] for account in accounts] == ["search 1", "search 2"]


def test_an_optimizer_that_cannot_say_its_settings_is_named_and_stops_nothing(tmp_path):
    lines = []
    note_settings(_configured(lost=Missing, mine=Versioned), tmp_path, lines.append)
    (line,) = lines
    assert line.startswith("no settings of lost: peer 'x' needs")
    assert list(json.loads((tmp_path / "optimizers.json").read_text())) == ["mine"]


def test_where_nobody_says_anything_there_is_no_file(tmp_path):
    note_settings(_configured(random=RandomSearch), tmp_path, print)
    assert list(tmp_path.iterdir()) == []
    assert read_settings(tmp_path) == {}

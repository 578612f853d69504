"""What is known of a model's accuracy, on a terminal of 80 columns."""

from codesign.cli import main
from codesign.models.quantization.published import scores_of


def test_published_scores_keep_their_words_and_name_each_source_once(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["accuracy", "qwen3-32b"]) == 0
    out = capsys.readouterr().out
    text = " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines())
    for word in ("hellaswag, ", "autoround", "activations / KV", "1: ", "2: "):
        assert word in text
    for source in {score.source for score in scores_of("qwen3-32b")}:
        assert text.count(f": {source}") == 1

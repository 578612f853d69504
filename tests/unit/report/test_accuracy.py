"""What a page says of the formats of a design."""

from __future__ import annotations

from codesign import api
from codesign.report.accuracy import format_lines


def lines(design: str) -> dict[str, tuple[str, ...]]:
    explained = api.evaluate(
        design=design,
        space="memexplorer-mixed",
        model="llama-3.3-70b",
        workload="osworld",
        phase="decode",
        options={"quantization_algorithm": "gptq"},
    )
    return {line[0]: line[1:] for line in format_lines(explained)}


def test_a_mixture_is_said_in_words_with_its_average_and_estimated() -> None:
    mixed, plain = lines("D1-mixed"), lines("D1")
    words = "87.5 % of layers mxfp4, 12.5 % mxfp8"
    assert mixed["bits of a weight"] == ("4.5", "", "on average", words)
    assert "bits of a weight" not in plain
    assert mixed["accuracy over 16 bits"][2] == "estimated"
    recovery = [float(named["accuracy over 16 bits"][0]) for named in (mixed, plain)]
    assert 0.985 < recovery[0] < recovery[1]

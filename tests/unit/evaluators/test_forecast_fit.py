"""What would fit a memory: advice that helps when it is followed."""

import re

import pytest

from codesign.cli import main

SCENES = {
    "a narrow variant": ["mixtral-8x7b", "--on", "v100-sxm", "--batch", "1"],
    "a smaller batch": ["llama-2-7b", "--on", "a100-sxm-40gb", "--batch", "999"],
    "only more devices": ["llama-3.3-70b", "--on", "l4", "--batch", "1"],
}
WAYS = {"a narrow variant": "--variant", "a smaller batch": "--batch", "only more devices": None}


def refusal(capsys, *words):
    """The message that refuses a forecast; empty if it is made."""
    code = main(["forecast", *words])
    message = capsys.readouterr().err
    assert code == (2 if message else 0)
    return message


@pytest.mark.parametrize("scene", SCENES)
def test_what_a_refusal_advises_is_accepted(scene, capsys):
    words = SCENES[scene]
    message = refusal(capsys, *words)
    assert "too much; would fit: " in message
    ways = re.search(r"would fit: (.*?), (\d+) devices", message)
    advised = [] if ways is None else [way.split() for way in ways[1].split(", ")]
    flags = [flag for flag, _ in advised]
    assert (WAYS[scene] in flags) if WAYS[scene] else not flags
    for flag, value in advised:
        changed = [*words, flag, value]
        if flag in words:
            changed = [value if word == words[words.index(flag) + 1] else word for word in words]
        assert refusal(capsys, *changed) == ""
        if flag == "--batch":
            more = [str(int(value) + 1) if word == value else word for word in changed]
            assert "too much" in refusal(capsys, *more)
    assert refusal(capsys, words[0], "--tops", "50", "--gbps", "256", *words[3:]) == ""


def test_without_a_way_that_fits_only_more_devices_are_advised(
    capsys,
):
    message = refusal(capsys, *SCENES["only more devices"])
    n_devices = int(re.findall(r"would fit: (\d+) devices", message)[0])
    needs, has = (float(re.findall(pattern, message)[0]) for pattern in
                  (r"got ([\d.]+) GB", r"at most ([\d.]+) GB"))  # fmt: skip
    assert n_devices == -(-needs // has)

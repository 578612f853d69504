"""What screening saves, counted in the declared time of both evaluators."""

import numpy as np
import yaml

from validation.screening import ScreenedRun, table, variants


def run(kind, shares):
    seconds = 60.0 * np.arange(1, len(shares) + 1)
    return ScreenedRun(kind, 0, seconds, np.array(shares), 5)


def test_time_is_counted_until_a_share_and_compared_with_the_dear_evaluator_alone():
    screened, alone = run("screened", [0.8, 0.93, 0.96]), run("alone", [0.3, 0.4, 0.6, 0.91])
    assert [screened.seconds_until(share) for share in (0.9, 0.99)] == [120.0, float("inf")]
    assert table([screened], [alone])[:4] == [
        "screened",
        "120 s (120 s to 120 s), 0.50 of alone",
        "180 s (180 s to 180 s)",
        "never (never to never)",
    ]


def test_the_variants_differ_in_what_is_known_in_advance_alone(tmp_path):
    path = tmp_path / "mine.yaml"
    optimizers = ["tpe", {"name": "gp-ehvi", "start": "hints"}]
    stated = {"name": "mine", "screening": {"name": "npu"}, "optimizers": optimizers, "budget": 9}
    path.write_text(yaml.safe_dump(stated))
    read = {
        kind: yaml.safe_load(item.read_text())
        for kind, item in variants(path, 2, None, tmp_path).items()
    }
    common = {"seeds": 2, "budget": 9}
    spread = [{"name": "tpe"}, {"name": "gp-ehvi", "start": "spread"}]
    assert read == {
        "screened": {**stated, **common, "name": "screened"},
        "predicted": {"name": "predicted", "optimizers": optimizers, **common},
        "alone": {"name": "alone", "optimizers": spread, "hints": "off", **common},
    }

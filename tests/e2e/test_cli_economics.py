"""``codesign economics`` and its campaign on real input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codesign.cli import main, requirements
from codesign.models.hardware.device import load_device

SMALL = ["--grid", "40"]
LLAMA = ["economics", "--model", "llama-3.3-70b"]


def document(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([*words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_a_frontier_is_one_json_document_with_its_ends_and_their_splits(capsys) -> None:
    words = ["--device", "h100", "--weight-format", "int8", "--profile", "epoch", *SMALL]
    found = document([*LLAMA, *words], capsys)
    speeds = [row["tokens_per_s"] for row in found["frontier"]]
    assert speeds == sorted(speeds)
    assert found["fastest"]["tokens_per_s"] == speeds[-1] == pytest.approx(189, rel=0.01)
    assert all(row["n_devices"] % 1 == row["batch"] % 1 == 0 for row in found["frontier"])
    assert 64 % found["alpha_optimal"]["split"]["tensor"] == 0
    assert found["cheapest"]["usd_per_million_tokens"] == pytest.approx(
        found["frontier"][0]["usd_per_million_tokens"]
    )
    assert found["alpha_optimal"]["split"]["layout"] == "1d"
    assert found["device"]["usd_per_hour"] == 3.0


def test_a_device_s_prices_follow_from_fitted_kernels_and_say_how_far_those_err(capsys) -> None:
    words = ["--weight-format", "fp8", "--activation-format", "fp8", *SMALL]
    words += ["--prompt-tokens", "2000", "--generated-tokens", "500"]
    found = document([*LLAMA, "--device", "h100", *words], capsys)
    assert found["conventions"]["profile"] == "fitted"
    assert any("error on this device" in note for note in found["notes"])
    # Each end is a platform whose step, with the prefill of others between, takes as long.
    fastest = found["fastest"]
    split = fastest["split"]
    platform = ["platform", "--model", "llama-3.3-70b", "--device", "h100", "--format", "fp8"]
    platform += ["--kv-format", "fp8"]  # the cache of `economics` is as the activations
    platform += ["--tp", f"{split['tensor']:.0f}", "--pp", f"{split['pipeline']:.0f}"]
    platform += ["--batch", f"{fastest['batch']:.0f}", *words[-4:]]
    metrics = document(platform, capsys)["metrics"]
    prefill = fastest["batch"] / 500 / metrics["prefill_requests_per_s"]
    step = metrics["time_per_output_token_s"] + prefill
    assert fastest["tokens_per_s"] == pytest.approx(1 / step)
    price = 3.0 * fastest["n_devices"] / 3600 * step / fastest["batch"] * 1e6
    assert fastest["usd_per_million_tokens"] == pytest.approx(price)
    # An answer takes the energy of its tokens and of its prompt, four times as long.
    joules = metrics["energy_joules_per_token"] + 4 * metrics["prefill_energy_joules_per_token"]
    assert fastest["joules_per_token"] == pytest.approx(joules) == 1 / fastest["tokens_per_joule"]
    low, high = fastest["joules_per_token_range"]
    assert low < fastest["joules_per_token"] < high


def test_energy_is_printed_where_power_is_stated_and_priced_where_the_device_is_bought(
    capsys,
) -> None:
    assert main([*LLAMA, "--device", "h200-sxm", "--capital-cost", "30000", *SMALL]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "J/token" in text.split("and its energy")[1]
    # 0.08 USD/kWh at a PUE of 1.58: 1e6 J are 0.2778 kWh.
    assert "1 J/token is 0.035 USD/Mtoken of electricity" in text
    found = document([*LLAMA, "--device", "tpu-v5e", *SMALL], capsys)
    assert "joules_per_token" not in found["fastest"]
    assert "energy" not in found["conventions"]


def test_the_papers_frontier_over_real_numbers_is_there_on_request(capsys) -> None:
    words = ["--device", "h100", "--weight-format", "int8", "--continuous", *SMALL]
    found = document([*LLAMA, *words], capsys)
    assert any(row["n_devices"] % 1 for row in found["frontier"])
    assert found["fastest"]["tokens_per_s"] == pytest.approx(189, rel=0.01)


def test_the_report_names_its_conventions_and_draws_cost_against_speed(
    tmp_path: Path, capsys
) -> None:
    for name, start in (("front.png", b"\x89PNG"), ("front.svg", b"<svg")):
        path = tmp_path / name
        assert main([*LLAMA, *SMALL, "--figure", str(path)]) == 0
        assert path.read_bytes().startswith(start)
    shown = capsys.readouterr().out
    for words in ("3 USD/h per device", "fastest", "best token/s^3/USD", "Frontier"):
        assert words in shown


def test_a_shipped_device_has_a_dated_range_of_rents(capsys) -> None:
    found = document([*LLAMA, *SMALL, "--device", "h200"], capsys)
    rents = found["device"]["rents"]
    assert rents["low"] < found["device"]["usd_per_hour"] == rents["typical"] < rents["high"]
    words = "4 USD/h per device (2.5 to 7 USD/h listed in 2026-05)"
    assert found["conventions"]["rent"].startswith(words)
    assert "0.62 to 1.8 times these" in found["conventions"]["rent"]
    given = document([*LLAMA, *SMALL, "--device", "h200", "--price-per-hour", "5"], capsys)
    assert given["device"]["rents"] is None
    assert given["conventions"]["rent"] == "5 USD/h per device"


def test_an_instance_that_is_given_is_priced_alone(capsys) -> None:
    words = [*LLAMA, "--devices", "8", "--batch", "64", "--tp", "4", "--pp", "2"]
    found = document(words, capsys)
    assert len(found["frontier"]) == 1
    assert found["fastest"]["split"]["tensor"] == 4
    assert found["fastest"]["split"]["pipeline"] == 2


def test_a_found_design_is_priced_by_rent_or_by_what_it_costs_to_own(capsys) -> None:
    words = [*LLAMA, "--design", "P1", "--space", "memexplorer", *SMALL]
    rented = document([*words, "--price-per-hour", "1.5"], capsys)
    assert rented["device"]["usd_per_hour"] == 1.5
    assert rented["conventions"]["formats"].startswith("weights mxint8")
    assert any("link bandwidth is not stated" in note for note in rented["notes"])
    owned = ["--capital-cost", "20000", "--power-watts", "697", "--lifetime-years", "4"]
    bought = document([*words, *owned], capsys)
    # 20,000 dollars over 4 years of 8,766 hours, and 697 W at the default 1.58 and 0.08 $/kWh.
    hour = 20000 / (4 * 8766) + 0.697 * 1.58 * 0.08
    assert bought["device"]["usd_per_hour"] == pytest.approx(hour)
    ratio = (
        bought["fastest"]["usd_per_million_tokens"] / rented["fastest"]["usd_per_million_tokens"]
    )
    assert ratio == pytest.approx(hour / 1.5)


def test_a_bought_design_whose_power_nobody_states_draws_its_tdp(capsys) -> None:
    words = ["--design", "P1", *SMALL, "--capital-cost", "20000", "--lifetime-years", "4"]
    bought = document([*LLAMA, *words], capsys)
    asked = ["--model", "llama-3.3-70b", "--phase", "prefill", "--workload", "osworld"]
    assert main(["evaluate", "--design", "P1", *asked, "--json"]) == 0
    watts = json.loads(capsys.readouterr().out)["metrics"]["tdp_watts"]
    hour = 20000 / (4 * 8766) + watts / 1e3 * 1.58 * 0.08
    assert bought["device"]["usd_per_hour"] == pytest.approx(hour)


def test_a_device_without_8_bit_floats_says_in_what_it_multiplies(capsys) -> None:
    words = ["--device", "a100", "--weight-format", "fp8", "--profile", "epoch", *SMALL]
    found = document([*LLAMA, *words], capsys)
    assert found["device"]["sustained_flop_per_s"] == pytest.approx(0.8 * 312e12)
    assert any("multiply in bf16" in note for note in found["notes"])


QUESTION = ["--prompt-tokens", "2000", "--generated-tokens", "500", "--users", "10000"]
QUESTION += ["--first-token", "1 s", "--output-token", "50 ms"]


@pytest.fixture
def one_device(monkeypatch) -> None:
    """``requirements`` sizes an H100 only; it takes all devices in turn, each for a while."""
    build = requirements.build

    def build_with_one(*arguments):
        evaluator, options = build(*arguments)
        evaluator.devices = {"h100-sxm": load_device("h100-sxm")}
        return evaluator, options

    monkeypatch.setattr(requirements, "build", build_with_one)


@pytest.mark.parametrize(
    "command", ["economics --max-devices 32", "requirements --most-devices 32"]
)
def test_sixteen_bits_of_a_model_that_is_published_in_eight_are_pointed_out(
    command: str, capsys
) -> None:
    words = [*command.split(), "--model", "deepseek-v3", "--device", "h200", *QUESTION]
    fp8 = ["--weight-format", "fp8", "--activation-format", "fp8"]
    hint = "the model is published in fp8"
    for more, is_hinted in (([], True), (fp8, False)):
        assert main([*words, *more]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert (hint in shown) == is_hinted


@pytest.mark.usefixtures("one_device")
@pytest.mark.parametrize("model", ["deepseek-v3", "llama-3.3-70b"])
def test_economics_and_requirements_count_the_devices_of_users_alike(model: str, capsys) -> None:
    formats = ["--weight-format", "fp8", "--activation-format", "fp8"]
    priced = document(["economics", "--model", model, *QUESTION, *formats], capsys)
    words = [*QUESTION, "--most-devices", "64", "--format", "fp8"]
    sized = document(["requirements", "--model", model, *words], capsys)
    (row,) = (row for row in sized["devices"] if row["device"] == "h100-sxm")
    fewest = priced["fewest_devices"]["devices_for_users"]
    assert 0.7 < row["devices"] / fewest < 1.4  # was 280
    for found in (priced["fewest_devices"], priced["cheapest"]):
        assert found["first_token_s"] <= 1.0 and found["tokens_per_s"] >= 20.0


@pytest.mark.usefixtures("one_device")
@pytest.mark.parametrize("command", ["economics", "requirements"])
def test_the_question_is_printed_above_the_answer(command: str, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    more = ["--grid", "20"] if command == "economics" else ["--most-devices", "4"]
    assert main([command, "--model", "llama-3-8b", *QUESTION, *more]) == 0
    shown = capsys.readouterr().out
    assert "2,000 prompt + 500 generated = 2,500 tokens" in shown
    assert "10,000 at once, each with the next request when the last is answered" in shown
    assert "first token within 1 s, output token within 50 ms" in shown
    assert "weights bf16, activations bf16, cache bf16" in shown and "prefill" in shown


def test_speed_and_price_say_whether_prefill_is_in_them(capsys) -> None:
    without, counted = (
        document([*LLAMA, *SMALL, *words], capsys)
        for words in (["--context-tokens", "2500"], QUESTION[:4])
    )
    assert "without any prefill" in without["conventions"]["counted"]
    assert "with the prefill of their prompts" in counted["conventions"]["counted"]
    prices = [found["cheapest"]["usd_per_million_tokens"] for found in (without, counted)]
    assert prices[1] > 1.5 * prices[0]


def test_notes_say_what_a_reader_could_take_for_more_than_it_is(capsys) -> None:
    epoch = [*SMALL, "--profile", "epoch"]
    own = document(["economics", "--model", "llama-3-8b", *epoch], capsys)
    assert own["conventions"]["speculation"] == "none"  # no model drafts for itself
    (note,) = own["notes"]
    assert "the largest batch that is tried, 10,000" in note
    limited = document([*LLAMA, *epoch, "--output-token", "20 ms"], capsys)
    assert limited["notes"] == []
    other = document(
        ["economics", "--model", "qwen3-32b", *epoch, "--output-token", "9 ms"], capsys
    )
    assert "llama-3-8b knows 128,256 tokens and qwen3-32b 151,936" in other["notes"][0]


def test_what_does_not_fit_names_an_instance_that_can_be_built(capsys) -> None:
    words = ["--device", "groq-lpu", "--price-per-hour", "1", "--context-tokens", "1000000"]
    words += ["--profile", "epoch"]
    assert main(["economics", "--model", "llama-3-8b", *words]) == 2
    shown = capsys.readouterr().err
    assert "does not fit 512 devices: one request needs 146.1 GB, there are 117.8 GB" in shown
    assert "1024 devices would hold it" in shown


def test_long_contexts_cost_more(capsys) -> None:
    short = document([*LLAMA, *SMALL], capsys)
    words = [*LLAMA, *SMALL, "--context-tokens", "100000", "--draft-kv-heads", "1"]
    long = document(words, capsys)
    prices = [item["cheapest"]["usd_per_million_tokens"] for item in (short, long)]
    assert prices[1] > 5 * prices[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--device", "h100-sxn"], "Did you mean 'h100-sxm'?"),
        (["--device", "mi210"], "AMD Instinct MI210: no rent is known for it; give price_usd"),
        (["--design", "P1"], "P1: no rent is known for it"),
        (["--design", "P9"], "unknown design 'P9'. Did you mean"),
        (["--devices", "12", "--batch", "8", "--pp", "5"], "divisor of the 12 devices, got 5"),
        (
            ["--devices", "12", "--batch", "9", "--pp", "3"],
            "--pp: expected a divisor of the 80 layers",
        ),
        (["--devices", "13", "--batch", "10"], "13 devices do not divide 80 layers, 64 heads"),
        (["--devices", "8.5", "--batch", "9"], "--devices: expected a whole number, or --cont"),
        (["--devices", "8", "--batch", "8", "--ep", "2"], "has no experts, got 2"),
        (["--devices", "1", "--batch", "4"], "needs 154 GB, has 80 GB; 2 devices would hold it"),
        (["--max-devices", "1", "--profile", "epoch"], "does not fit 1 device:"),
        (["--max-devices", "1"], "llama-3.3-70b does not fit 1 of NVIDIA H100"),
        (["--profile", "fitted", "--tp", "8"], "--tp: expected --profile epoch or plain with it"),
        (["--option", "compute_cap=0.5"], "compute_cap: expected --profile epoch or plain"),
        (["--devices", "8"], "expected --devices and --batch together"),
        (["--tp", "8"], "--tp and --pp fix the devices, so they need --batch"),
        (["--context-tokens", "nan"], "should be a finite number, got nan"),
        (["--context-tokens", "-1"], "greater than or equal to 0, got -1"),
        (
            ["--price-per-hour", "inf"],
            "--price-per-hour: input should be a finite number",
        ),
        (["--price-per-hour", "-2"], "greater than 0, got -2"),
        (["--option", "compute_cap=1.5"], "compute_cap: input should be less than or equal to 1"),
        (["--option", "bandwidth_cap=0"], "bandwidth_cap: input should be greater than 0"),
        (["--acceptance", "1"], "acceptance: input should be less than 1"),
        (["--alpha", "nan"], "--alpha: expected a finite number from 0, got nan"),
        (["--grid", "1"], "--grid: expected a number of points from 2 to 2000, got 1"),
        (["--weight-format", "int3"], "unknown number format 'int3'. Did you mean 'int8'?"),
        (["--layout", "3d"], "unknown layout '3d'"),
        (["--figure", "front.gif"], "unknown figure format 'gif'"),
        (["--space", "memexplorer"], "expected --design with --space"),
        (
            ["--capital-cost", "3e4", "--price-per-hour", "2"],
            "or --capital-cost, got both",
        ),
        (
            ["--power-watts", "9"],
            "only of a bought device, with --capital-cost",
        ),
        (["--option", "busy_share=2"], "error: --option: busy_share: input should be less"),
        (["--option", "busy_shar=2"], "error: --option: busy_shar: unknown key"),
        (["--demand", "0"], "error: --demand: input should be greater than 0"),
        (["--draft-kv-heads", "3"], "error: --draft-kv-heads: key and value heads of"),
        (["--figure", "a.gif"], "error: --figure: unknown figure format"),
        (["--prompt-tokens", "9"], "expected both --prompt-tokens and --generated-tokens"),
        (["--prompt-tokens", "9", "--generated-tokens", "0"], "tokens are priced, got 0"),
        (["--users", "10000"], "--users: expected --prompt-tokens and --generated-tokens, or"),
        (["--users", "10k"], "invalid value for '--users': expected a whole number"),
        (["--first-token", "1 s"], "--first-token: expected --prompt-tokens and"),
        (["--output-token", "1 us", "--grid", "9"], "output token within 1e-06 s (at best"),
        (["--lifetime-years", "3"], "only of a bought device"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_used_is_refused_in_one_line(words: list[str], message: str, capsys) -> None:
    assert main([*LLAMA, *words]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    (line,) = shown.err.splitlines()
    assert message in line


def test_price_against_speed_is_a_campaign(tmp_path: Path, capsys) -> None:
    text = Path("runs/economics-llama.yaml").read_text()
    smaller = {"budget: 200": "budget: 30", "seeds: 3": "seeds: 1", "economics-llama": "small"}
    for old, new in smaller.items():
        text = text.replace(old, new)
    (tmp_path / "small.yaml").write_text(text)
    words = ["run", str(tmp_path / "small.yaml"), "--folder", str(tmp_path), "--workers", "1"]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)

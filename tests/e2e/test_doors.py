"""Things of a user's own take part with one file or one function each; no package code changes.

``docs/contributing.md`` has the table. A package with entry points is in ``test_stranger.py``.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from codesign import api
from codesign.base.columns import Column, column_of
from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluator
from codesign.base.metrics import ALL_METRICS, METRICS, Metric
from codesign.cli import main
from codesign.evaluators.npu import NpuEvaluator, NpuOptions, compiled
from codesign.evaluators.npu.design_metrics import DesignMetrics
from codesign.evaluators.platform.serving_steps import cache_tokens
from codesign.evaluators.simulation import SimulationEvaluator
from codesign.models.deployments.parallelism import TENSOR_PARALLEL
from codesign.models.deployments.queueing import EngineLimits
from codesign.models.hardware.accelerator import build_accelerators
from codesign.models.workload import Request, load_model
from codesign.report.machine import machine_of
from codesign.search.derived_metrics import MetricDefinition
from codesign.search.enumeration import enumerate_front
from codesign.search.problem_builder import build_problem
from codesign.testing import check_evaluator

REQUEST = Request(model="llama-3.3-70b", trace="osworld", phase="decode", batch=4)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    for name in ("memtech", "spaces", "runs"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)


def _write(path, contents):
    Path(path).write_text(yaml.safe_dump(dict(contents), sort_keys=False), encoding="utf-8")


# --- a kind of operator, with or without a state: a block that lowers itself ---------------------

BLOCKS = """
from codesign.models.workload.model import Block
from codesign.models.workload.operator_rules import REPLICATED_PRODUCT, STREAMED_STATE
from codesign.models.workload.operators import Operator, projection


class Mixing(Block):
    has_rule: bool = True

    def lower(self, model, layer_pass):
        width, rule = model.hidden_size, REPLICATED_PRODUCT if self.has_rule else None
        layers, tokens = model.num_hidden_layers, layer_pass.tokens
        return [projection("own_mixing", "mlp", layers, tokens, width, width, rule=rule)]


class Memory(Block):
    stored_bytes: float
    moved_bytes: float

    def lower(self, model, layer_pass):
        return [Operator("own_memory", "vector", "attention", 1, rule=STREAMED_STATE,
                         state_read_bytes_per_request=self.moved_bytes,
                         state_written_bytes_per_request=self.moved_bytes,
                         stored_bytes_per_request=self.stored_bytes)]
"""
STATE_BYTES = 5e9


@pytest.fixture
def blocks(monkeypatch):
    folder = Path.cwd() / "packages"
    distribution = folder / "own_blocks-1.0.dist-info"
    distribution.mkdir(parents=True)
    (folder / "own_blocks.py").write_text(BLOCKS, encoding="utf-8")
    points = "[codesign.blocks]\nmixing = own_blocks:Mixing\nmemory = own_blocks:Memory\n"
    (distribution / "entry_points.txt").write_text(points, encoding="utf-8")
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: own-blocks\nVersion: 1\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "own_blocks", raising=False)


def _with_blocks(*definitions):
    model = load_model("llama-3.3-70b").model_dump(mode="json", exclude_none=True)
    _write("own.yaml", model | {"blocks": list(definitions)})
    return "./own.yaml"


def _results(model):
    """Metrics of four devices by evaluator; of one under ``forecast``, which knows no others."""
    space = api.load_space("memexplorer-parallel")
    columns = space.columns(space.encode(space.designs["D1x4"]))
    device = {"device": column_of(["h100-sxm"]), TENSOR_PARALLEL: column_of([4])}
    rates = {"peak_ops_per_s": column_of([1e15]), "bandwidth_bytes_per_s": column_of([3e12])}
    request = {"model": model, "prompt_tokens": 512, "generated_tokens": 64}
    decode, capacity = (
        Request(model=model, trace="gsm8k", phase="decode", batch=batch)
        for batch in (4, "capacity")
    )
    return {
        "npu": NpuEvaluator(decode).evaluate(columns).metrics,
        "npu at capacity": NpuEvaluator(capacity).evaluate(columns).metrics,
        "simulation": SimulationEvaluator(decode).evaluate(columns).metrics,
        "platform": api.build_evaluator("platform", request).evaluate(device).metrics,
        "forecast": api.build_evaluator("forecast", request).evaluate(rates).metrics,
    }


@pytest.mark.usefixtures("blocks")
def test_a_kind_of_operator_reaches_every_machine():
    before, after = _results("llama-3.3-70b"), _results(_with_blocks({"name": "mixing"}))
    rate = "throughput_tokens_per_s"
    # Each device reads 80 x 8192 x 8192 weights more beside its quarter of 70e9; one, beside all.
    for machine, metrics in before.items():
        slower = float(after[machine][rate][0] / metrics[rate][0])
        limit = {"forecast": 0.95, "npu at capacity": 0.98}.get(machine, 0.9)
        assert 0.6 < slower < limit, machine
    with pytest.raises(InputError, match="unknown operator 'own_mixing'"):
        _results(_with_blocks({"name": "mixing", "has_rule": False}))  # refused, rather than free


@pytest.mark.usefixtures("blocks")
def test_a_state_of_every_request_reaches_memory_capacity_and_batch_everywhere():
    memory = {"name": "memory", "stored_bytes": STATE_BYTES, "moved_bytes": STATE_BYTES}
    model = _with_blocks(memory)
    before, after = _results("llama-3.3-70b"), _results(model)

    def added(machine, metric):
        return float(after[machine][metric][0] - before[machine][metric][0])

    used = "memory_used_bytes"
    for machine in ("npu", "simulation"):  # four requests on each of four devices
        assert added(machine, used) == pytest.approx(16 * STATE_BYTES)
    assert added("platform", "memory_used_per_device_bytes") == pytest.approx(STATE_BYTES)
    assert added("forecast", used) == pytest.approx(STATE_BYTES)
    assert added("npu at capacity", "batch_size") < 0
    for machine, metrics in before.items():
        rate = "throughput_tokens_per_s"
        assert after[machine][rate][0] < 0.97 * metrics[rate][0], machine
    # Systems hand it over, engines leave room for it, and economics, which counts layers, refuses.
    space = api.load_space("system-pd")
    sent = {}
    for name in ("llama-3.3-70b", model):
        evaluator = api.build_evaluator("system", {"model": name, "trace": "osworld"})
        evaluator = build_problem(
            space, evaluator, ["maximize requests_per_s"], [], "system"
        ).evaluator
        designs = space.columns(space.sample(np.random.default_rng(0), 8))
        sent[name] = evaluator.evaluate(designs, ["handover_bytes"]).metrics["handover_bytes"]
    np.testing.assert_allclose(sent[model] - sent["llama-3.3-70b"], STATE_BYTES)
    room = []
    for name in ("llama-3.3-70b", model):
        request = {"model": name, "prompt_tokens": 512, "generated_tokens": 64}
        evaluator = api.build_evaluator("platform", request)
        design = {"device": "h100-sxm", TENSOR_PARALLEL: 4}
        room.append(cache_tokens(evaluator, design, EngineLimits(max_sequences=4), 0.9))
    token_bytes = 2 * 80 * 2 * 128 * 2  # two KV heads of eight, in 16 bits
    assert room[0] - room[1] == pytest.approx(4 * STATE_BYTES / token_bytes, abs=1)
    with pytest.raises(InputError, match="expected a model without further blocks, got memory"):
        api.build_evaluator("economics", {"model": model, "context_tokens": 512})


@pytest.mark.usefixtures("blocks")
def test_a_state_that_nobody_stores_is_refused():
    model = _with_blocks({"name": "memory", "stored_bytes": 0.0, "moved_bytes": STATE_BYTES})
    with pytest.raises(InputError, match="operator own_memory: expected stored_bytes_per_request"):
        _results(model)
    with pytest.raises(InputError, match=r"unknown block 'memori'\. Did you mean 'memory'"):
        load_model(_with_blocks({"name": "memori"}))
    with pytest.raises(InputError, match="moved_bytes"):
        load_model(_with_blocks({"name": "memory", "stored_bytes": 1.0}))


# --- a metric with a bound: one property and its bound --------------------------------------------

IDLE = Metric("offchip_background_watts", "minimize", "W", "Off-chip memory at rest")


def _idle_watts(hardware):
    return np.asarray(hardware.levels.background_watts[1:].sum(axis=0))


class MetricsWithIdlePower(DesignMetrics):
    @property
    def offchip_background_watts(self):
        return _idle_watts(self.chosen.designs.listed) * self.part.n_devices


class NpuWithIdlePower(NpuEvaluator):
    """``npu`` with one metric more, and a bound of it: which tiers there are is decided first."""

    def __init__(self, workload, options=None):
        super().__init__(workload, options)
        self.metrics += (IDLE,)

    def metrics_of(self, chosen):
        return MetricsWithIdlePower(chosen)

    def best_case(self, designs, undecided, metrics):
        best = dict(super().best_case(designs, undecided, metrics))
        if IDLE.name in metrics:
            n = len(designs["pe_array"])
            open_columns = {name: column_of([values[0]] * n) for name, values in undecided.items()}
            hardware = build_accelerators({**open_columns, **designs}, self.technologies())
            best[IDLE.name] = _idle_watts(hardware)
        return best


class WithoutBounds(NpuWithIdlePower):
    """The same; nothing is bounded, so every design is evaluated."""

    def best_case(self, *inputs):
        return {}


def test_a_metric_of_ones_own_is_bounded_and_searched_exactly():
    formats = dict.fromkeys(("weight_format", "activation_format", "kv_format"), "mxint8")
    space = api.load_space("memexplorer").fix(
        {**formats, "pe_array": [2048, 256], "vector_length": 2048, "storage_priority": "equal",
         "bandwidth_priority": "equal", "dataflow": "ws", "tier3_technology": None}
    )  # fmt: skip
    fronts = []
    for factory in (NpuWithIdlePower, WithoutBounds):
        goals = ["maximize throughput_tokens_per_s", f"minimize {IDLE.name}"]
        limits = [f"{IDLE.name} <= 40 W"]
        fronts.append(enumerate_front(build_problem(space, factory(REQUEST), goals, limits, "npu")))
    pruned, brute = fronts
    np.testing.assert_array_equal(pruned.objectives, brute.objectives)
    assert len(brute) > 2
    assert pruned.n_evaluated < brute.n_evaluated  # the bound is used
    designs = space.columns(space.sample(np.random.default_rng(0), 20))
    check_evaluator(NpuWithIdlePower(REQUEST), designs)


# --- a metric of the package: a record and a property, two files ---------------------------------

BUILT_IN = Metric("kv_share", "minimize", "", "KV cache of the batch over the memory used")
RUN = {
    "space": "memexplorer", "evaluator": {"name": "npu", "profile": "memexplorer"},
    "workload": {"model": "llama-3.3-70b", "trace": "osworld", "phase": "decode"},
    "objectives": ["minimize kv_share", "minimize tdp_watts"], "constraints": ["kv_share <= 0.9"],
    "optimizers": ["random"], "initial": 4, "budget": 8, "workers": 1,
}  # fmt: skip


def test_a_metric_of_the_package_is_a_record_and_a_property(monkeypatch, capsys):
    for table in (METRICS, ALL_METRICS):  # both are made of the records of one file
        monkeypatch.setitem(table, BUILT_IN.name, BUILT_IN)
    share = property(lambda self: self.memory_used_bytes / self.silicon.memory_capacity_bytes)
    monkeypatch.setattr(DesignMetrics, BUILT_IN.name, share, raising=False)

    def document(*words):
        capsys.readouterr()
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert document("list", "metrics")["metrics"]["kv_share"]["meaning"] == BUILT_IN.meaning
    words = "evaluate D1 --model llama-3.3-70b --workload osworld --phase decode"
    assert 0 < document(*words.split())["metrics"]["kv_share"] < 1
    _write("runs/own.yaml", RUN)
    front = document("run", "own")
    assert front["objectives"]["kv_share"] == "minimize"
    assert all("kv_share" in each["metrics"] for each in front["observations"])
    assert "kv_share" in Path("runs/own/front.csv").read_text().partition("\n")[0]
    assert main(["export", "own", "--format", "markdown"]) == 0
    assert "kv share" in Path("runs/own/front.md").read_text().lower()


# --- a metric that is computed from others: a key of the campaign, or a record --------------------

DENSITY = {
    "value": "throughput_tokens_per_s / area_mm2", "sense": "maximize", "unit": "token/s/mm^2",
    "description": "Throughput per area",
}  # fmt: skip


def test_a_metric_computed_from_others_is_a_key_of_a_campaign(capsys):
    formats = dict.fromkeys(("weight_format", "activation_format", "kv_format"), "mxint8")
    sizes = {"pe_array": [2048, 256], "vector_length": 2048, "sram_dies": 1, "sram_3d_layers": 0}
    rest = {"storage_priority": "equal", "bandwidth_priority": "equal", "dataflow": "ws"}
    _write("runs/density.yaml", {
        "space": "memexplorer", "evaluator": {"name": "npu"},
        "workload": {"model": "llama-3.3-70b", "trace": "osworld", "phase": "decode", "batch": 4},
        "metrics": {"tokens_per_s_per_mm2": DENSITY},
        "objectives": ["maximize tokens_per_s_per_mm2", "minimize tdp_watts"],
        "constraints": ["tokens_per_s_per_mm2 >= 0.05"],
        "fixed": {**formats, **sizes, **rest, "tier2_technology": None},
        "optimizers": ["nsga2"], "initial": 4, "budget": 12, "reference_sample": 16, "workers": 1,
    })  # fmt: skip
    for command in ("run", "enumerate", "status front", "explain", "report --samples 1"):
        assert main([*command.split(), "density"]) == 0
    assert main(["evaluate", "--campaign", "density", "--pick", "frugal"]) == 0
    assert re.search(r"tokens per s per mm2 +[0-9.]+ token/s/mm² +higher", capsys.readouterr().out)
    pick = ["evaluate", "--campaign", "density", "--pick", "frugal"]
    for words in (["status", "front", "density"], [*pick, "--uncertainty", "--samples", "5"]):
        assert main([*words, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        parts = document["uncertainty"] if "--uncertainty" in words else document
        assert "tokens_per_s_per_mm2" in parts.get("metrics", parts.get("objectives"))
    assert main(["report", "figure", "front", "density", "--format", "svg"]) == 0
    assert main(["export", "density", "--output", "front.csv"]) == 0
    capsys.readouterr()
    header, *lines = Path("front.csv").read_text(encoding="utf-8").splitlines()
    columns = header.split(",")
    values = [dict(zip(columns, line.split(","), strict=False)) for line in lines]
    assert len(values) > 1
    for row in values:
        density = float(row["throughput_tokens_per_s"]) / float(row["area_mm2"])
        assert float(row["tokens_per_s_per_mm2"]) == pytest.approx(density, rel=1e-12)
    assert "okens per s per mm2" in Path("runs/density/report.html").read_text(encoding="utf-8")


def test_a_metric_computed_from_others_is_a_record_in_python():
    space = api.load_space("memexplorer")
    goals = ["maximize density", "minimize tdp_watts"]
    metrics = {"density": MetricDefinition(**DENSITY)}
    problem = build_problem(space, NpuEvaluator(REQUEST), goals, metrics=metrics)
    seen = problem.evaluate(space.sample(np.random.default_rng(0), 20)).metrics
    density = seen["throughput_tokens_per_s"] / seen["area_mm2"]
    np.testing.assert_allclose(seen["density"], density, rtol=1e-12)


# --- memory technologies: a file each ------------------------------------------------------------


def _technology(name, **changes):
    numbers = {
        "latency": "10 ns", "capacity": "2 GB", "bandwidth": "16 TB/s",
        "background_power": "1 W/GB", "read_energy": "0.5 pJ/bit", "write_energy": "0.5 pJ/bit",
    }  # fmt: skip
    sources = dict.fromkeys((*numbers, *(["shoreline"] if "shoreline" in changes else [])), "ours")
    record = {"name": name, "unit": "layer", **numbers, **changes, "sources": sources}
    _write(f"memtech/{name}.yaml", record)


ON_CHIP = {
    "parameters": {"sram_technology": {"from": "memtech", "values": ["sram", "own_sram"]}},
    "derived": {
        "onchip_capacity": {
            "value": "sram_technology.capacity * sram_dies "
            "+ memtech.sram_3d.capacity * sram_3d_layers",
            "unit": "GB",
        }
    },
}


def test_an_on_chip_technology_is_a_file():
    _technology("own_sram", place="on-chip")
    designs = {"Own": {"based_on": "Base", "values": {"sram_technology": "own_sram"}, "source": ""}}
    _write("spaces/own.yaml", {"based_on": "memexplorer", **ON_CHIP, "designs": designs})
    evaluator = NpuEvaluator(REQUEST, NpuOptions())
    own = api.evaluate(design="Own", space="own", evaluator=evaluator)
    base = api.evaluate(design="Base", evaluator=evaluator)
    added = own.metrics["memory_capacity_bytes"] - base.metrics["memory_capacity_bytes"]
    assert added == pytest.approx(2e9 - 0.256e9)


def test_a_memory_that_is_bonded_onto_the_die_takes_no_edge(capsys):
    _technology("bonded_dram", place="off-chip", shoreline="0 mm", capacity="8 GB")
    _write("spaces/bonded.yaml", {
        "based_on": "memexplorer",
        "repeated": {"tier": {
            "description": "Off-chip memory", "minimum": 1, "maximum": 3,
            "parameters": {
                "technology": {
                    "description": "Memory technology", "from": "memtech",
                    "values": ["bonded_dram", "hbm3e_8h", "lpddr5x", "lpddr6"],
                },
                "stacks": {"description": "Stacks", "values": [1, 2, 4, 8]},
            },
            "order": ["technology.bandwidth * stacks", "technology.capacity * stacks"],
        }},
        "designs": {"Bonded": {
            "based_on": "Base", "source": "ours",
            "values": {"tier2_technology": "bonded_dram", "tier2_stacks": 4},
        }},
    })  # fmt: skip
    evaluator = NpuEvaluator(REQUEST, NpuOptions(score_path="local"))
    bonded = api.evaluate(design="Bonded", space="bonded", evaluator=evaluator)
    base = api.evaluate(design="Base", evaluator=evaluator)
    assert bonded.metrics["shoreline_mm"] == base.metrics["shoreline_mm"]
    grown = bonded.metrics["memory_capacity_bytes"] - base.metrics["memory_capacity_bytes"]
    assert grown == pytest.approx(32e9)
    # The on-chip port limits both, as every operand passes it; the memory shortens what waits off
    # the chip, by the share of the bytes that it holds.
    waits = [sum(row["off_chip_s"] for row in design.operators) for design in (base, bonded)]
    off_chip = [level for level in bonded.levels if level["name"] != "on_chip"]
    share = off_chip[1]["read_bytes"] / off_chip[0]["read_bytes"]
    assert share < 0.8 and waits[1] == pytest.approx(share * waits[0], rel=0.01)
    assert main(["list", "bonded_dram"]) == 0
    assert "It takes no die edge." in capsys.readouterr().out


# --- a fourth off-chip tier: a number in the space file -------------------------------------------

TIERS = ["hbm4_12h", "gddr7", "lpddr6", "hbf"]


def _four_tiers(technologies=TIERS):
    tiers = {f"tier{i}_technology": name for i, name in enumerate(technologies, start=1)}
    counts = {f"tier{i}_stacks": 1 for i in range(1, 5)}
    four = {"Four": {"based_on": "Base", "values": {**tiers, **counts}, "source": "ours"}}
    _write("spaces/four.yaml", {
        "based_on": "memexplorer",
        "repeated": {"tier": {
            "description": "Off-chip memory", "minimum": 1, "maximum": 4,
            "parameters": {
                "technology": {
                    "description": "Memory technology", "from": "memtech",
                    "values": list(technologies),
                },
                "stacks": {"description": "Stacks", "values": [1]},
            },
            "order": ["technology.bandwidth * stacks", "technology.capacity * stacks"],
        }},
        "designs": four,
    })  # fmt: skip


@pytest.mark.parametrize("topology", ["staged", "parallel"])
def test_a_front_with_four_tiers_is_that_of_brute_force(topology, monkeypatch):
    monkeypatch.setenv(compiled.SWITCH, "0")  # as below
    # One that is fast and soon full, so that the bound counts what the others read together.
    _technology("small", place="off-chip", shoreline="10 mm", bandwidth="4 TB/s", capacity="4 GB")
    _four_tiers(["small", "hbf", "hbm3e_8h", "lpddr6"])
    fixed = {"pe_array": [2048, 256], "vector_length": 2048, "weight_format": "mxint8",
             "activation_format": "mxint8", "sram_dies": 1}  # fmt: skip
    space = api.load_space("four").fix(fixed)
    goals = ["maximize throughput_tokens_per_s", "minimize tdp_watts", "minimize shoreline_mm"]
    fronts = []
    for factory in (NpuEvaluator, WithoutBounds):
        evaluator = factory(REQUEST, NpuOptions(topology=topology))
        fronts.append(enumerate_front(build_problem(space, evaluator, goals, [], "npu")))
    pruned, brute = fronts
    np.testing.assert_array_equal(pruned.objectives, brute.objectives)
    assert pruned.n_evaluated < brute.n_evaluated  # the bounds are used
    assert any(space.columns(pruned.rows)["tier4_technology"].decoded())
    rate = "throughput_tokens_per_s"
    designs = space.columns(space.sample(np.random.default_rng(0), 400))
    bound = NpuEvaluator(REQUEST, NpuOptions(topology=topology)).best_case(designs, {}, [rate])[
        rate
    ]
    share = np.asarray(evaluator.evaluate(designs, [rate]).metrics[rate]) / bound
    assert 0.9 < share.max() <= 1.0


def test_a_fourth_tier_is_explained_simulated_and_listed(monkeypatch):
    monkeypatch.setenv(compiled.SWITCH, "0")  # a loop over four tiers is compiled in 18 s
    _four_tiers()
    space = api.load_space("four")
    columns = space.columns(space.encode(space.designs["Four"]))
    for factory in (NpuEvaluator, SimulationEvaluator):
        evaluator = factory(REQUEST)
        account = evaluator.explain(columns)
        names = [level["name"] for level in account.levels]
        assert names[0] == "on_chip"
        assert set(names[1:]) == {f"tier{i}" for i in range(1, 5)}
        held = {
            k: sum(level["holds_share"][k] for level in account.levels) for k in ("weight", "kv")
        }
        assert held == pytest.approx({"weight": 1.0, "kv": 1.0})
    check_evaluator(
        NpuEvaluator(REQUEST), space.columns(space.sample(np.random.default_rng(0), 20))
    )
    machine = machine_of(api.evaluate(design="Four", space="four", evaluator=NpuEvaluator(REQUEST)))
    assert [level.title for level in machine.tiers] == [f"tier {i}" for i in range(1, 5)]


def test_a_sixth_tier_is_refused_in_one_line(capsys):
    _four_tiers()
    text = Path("spaces/four.yaml").read_text(encoding="utf-8").replace("maximum: 4", "maximum: 6")
    Path("spaces/four.yaml").write_text(text, encoding="utf-8")
    model = ["--space", "four", "--model", "llama-3.3-70b", "--workload", "osworld"]
    assert main(["evaluate", "--design", "Four", *model, "--phase", "decode"]) == 2
    error = capsys.readouterr().err
    assert "does not use a parameter of space 'four': unknown parameter 'tier6_technology'" in error


# --- a machine: a file ---------------------------------------------------------------------------


def test_a_machine_is_a_file_and_serves_as_those_that_come_with_codesign(capsys):
    device = {
        "name": "A machine of our own", "vendor": "us", "device_class": "gpu",
        "peak": {"fp16": "2000 TFLOP/s", "fp8": "4000 TFLOP/s"},
        "n_cores": 200, "bandwidth": "10 TB/s", "capacity": "300 GB",
        "link_bandwidth": "900 GB/s", "n_linked": 8, "link_kind": "nvlink-5", "power": "1 kW",
    }  # fmt: skip
    numbers = set(device) - {"name", "vendor", "device_class", "link_kind"}
    _write("own.yaml", {**device, "sources": dict.fromkeys(sorted(numbers), "ours")})
    request = {"model": "llama-3.3-70b", "prompt_tokens": 512, "generated_tokens": 64}
    evaluator = api.build_evaluator("platform", request, {"device_files": ["own.yaml"]})
    names = ["own", "h100-sxm"]
    designs = {"device": column_of(names * 2), TENSOR_PARALLEL: column_of([2, 2, 8, 8])}
    result = evaluator.evaluate(designs, ["time_per_output_token_s"])
    seconds = np.asarray(result.metrics["time_per_output_token_s"]).reshape(2, 2)
    assert (seconds[:, 0] < seconds[:, 1]).all()  # three times the bandwidth
    assert (seconds[1] < seconds[0]).all()


# --- a deployment policy: one class over an evaluator of ours -------------------------------------


class FewestThatHold(Evaluator):
    """Every design is served by the fewest devices, a power of two, that hold the model."""

    Workload, Options = NpuEvaluator.Workload, NpuEvaluator.Options
    required_parameters = NpuEvaluator.required_parameters
    optional_parameters = NpuEvaluator.optional_parameters - {TENSOR_PARALLEL}
    degrees = (1, 2, 4, 8)

    def __init__(self, workload, options):
        self.npu = NpuEvaluator(workload, options)
        self.metrics = self.npu.metrics

    def known_violations(self, designs):
        return self.npu.known_violations(self.deployed(designs))

    def evaluate(self, designs, metrics=None):
        return self.npu.evaluate(self.deployed(designs), metrics)

    def provenance(self):
        return {**self.npu.provenance(), "devices": "the fewest that hold the model"}

    def deployed(self, designs):
        """The designs with the degree of parallelism that the policy gives each."""
        degree = np.full(len(designs["pe_array"]), len(self.degrees) - 1)
        for code in reversed(range(len(self.degrees))):
            columns = {**designs, TENSOR_PARALLEL: Column(self.degrees, np.full_like(degree, code))}
            degree[self.npu.known_violations(columns)["capacity"] <= 0] = code
        return {**designs, TENSOR_PARALLEL: Column(self.degrees, degree)}


def test_a_deployment_policy_is_a_class_over_an_evaluator():
    space = api.load_space("memexplorer").fix({"tier3_technology": None})
    designs = space.columns(space.sample(np.random.default_rng(1), 60))
    policy = FewestThatHold(REQUEST, NpuOptions())
    check_evaluator(policy, designs)
    columns = policy.deployed(designs)
    assert len(set(columns[TENSOR_PARALLEL].codes.tolist())) > 2
    ours = policy.evaluate(designs).metrics
    for name, values in policy.npu.evaluate(columns).metrics.items():
        np.testing.assert_array_equal(ours[name], values)
    problem = build_problem(
        space, policy, ["maximize throughput_tokens_per_s", "minimize tdp_watts"], [], "policy"
    )
    rows = space.sample(np.random.default_rng(2), 20)
    assert problem.evaluate(rows).feasible.any()

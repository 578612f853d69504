"""The compiled loop against the NumPy path, and repeated designs against single ones: same bits."""

import itertools
import platform
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.base.columns import Column, combined, distinct, taken
from codesign.base.errors import InputError
from codesign.evaluators.npu import NpuEvaluator, NpuOptions, compiled
from codesign.evaluators.npu.npu_evaluator import LARGEST_CHUNK
from codesign.evaluators.npu.preparation import Preparation
from codesign.models.hardware import formula_operations
from codesign.models.machines.npu import machine_code
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.space import load_space
from tests.laws import in_turn

LIBRARY = load_library()
needs_numba = pytest.mark.skipif(not compiled.has_numba(), reason="numba is not installed")

MODELS = {"llama-3.3-70b": "osworld", "mixtral-8x7b": "gsm8k", "deepseek-v3": "bfcl"}
OPTIONS = [
    {},
    {"profile": "memexplorer"},
    {"blocking": "array"},
    {"topology": "parallel"},
    {"profile": "memexplorer", "batch": "best", "bandwidth_sharing": "shared"},
    {"requests_in_flight": 16.0},
    {"bandwidth_sharing": "shared"},
    {"array": "systolic"},
    {"array": "ideal"},
    {"fused": False},
    {"batch": "capacity"},
    {"offchip_efficiency": 0.7, "vector": "serial"},
]
CASES = list(itertools.product(MODELS, ("prefill", "decode"), range(len(OPTIONS))))
SPACES = ("memexplorer", "memexplorer-table2", "h100", "a100")


@cache
def space(name):
    return load_space(name, {"memtech": LIBRARY.catalog()})


@cache
def designs(name):
    """Random designs of the whole space; one where there is only one."""
    here = space(name)
    n = 100 if here.size > 1 else 1
    return here.columns(here.sample(np.random.default_rng(4), n))


@cache
def evaluator(model, phase, options):
    request = Request(model=model, phase=phase, trace=MODELS[model])
    npu = NpuEvaluator(request, NpuOptions(**OPTIONS[options]), library=LIBRARY)
    # A limit that all, some or none of the sizes keep.
    return npu.keep_limits({"time_per_output_token_s": (np.inf, 0.1, 0.02)[options % 3]})


def assert_same_bits(one, other):
    for mine, theirs in ((one.metrics, other.metrics), (one.violations, other.violations)):
        assert list(mine) == list(theirs)
        for name, values in mine.items():
            assert values.tobytes() == theirs[name].tobytes(), name


@needs_numba
@pytest.mark.parametrize(
    ("case", "name"),
    # Every case in the largest space; in the others each option with one of the models in turn.
    [(case, name) for name in SPACES for i, case in enumerate(CASES)
     if name == SPACES[0] or (i + i // len(OPTIONS) // 2) % len(MODELS) == 0],
    ids=str,
)  # fmt: skip
def test_the_compiled_loop_gives_the_same_bits_as_numpy(case, name, monkeypatch):
    answers = []
    for switch in "01":
        monkeypatch.setenv(compiled.SWITCH, switch)
        answers.append(evaluator(*case).evaluate(designs(name)))
    assert_same_bits(*answers)


@needs_numba
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_stated_energies_of_an_operation_give_the_same_bits_and_bounds_below(phase, monkeypatch):
    request = Request(model="llama-3.3-70b", phase=phase, trace="osworld")
    energies = {"mac_energy_joules": 1.3e-12, "lane_energy_joules": 0.16e-12}
    columns, metrics = designs("memexplorer"), ("tdp_watts", "energy_joules_per_token")
    answers = []
    for switch in "01":
        monkeypatch.setenv(compiled.SWITCH, switch)
        changed = NpuEvaluator(request, library=LIBRARY).replace_constants(energies)
        answers.append(changed.evaluate(columns))
        least = changed.best_case(columns, {}, metrics)
        for name in metrics:
            assert (least[name] <= answers[-1].metrics[name] * (1 + 1e-12)).all()
    assert_same_bits(*answers)
    typical = NpuEvaluator(request, library=LIBRARY).evaluate(columns)
    speed = "throughput_tokens_per_s"
    assert answers[0].metrics[speed].tobytes() == typical.metrics[speed].tobytes()
    assert (answers[0].metrics["tdp_watts"] != typical.metrics["tdp_watts"]).all()


@needs_numba
@pytest.mark.slow  # another number of tiers is another loop, compiled in 18 s
@pytest.mark.parametrize("options", range(len(OPTIONS)))
def test_the_compiled_loop_of_four_tiers_gives_the_same_bits(options, monkeypatch):
    columns = dict(designs("memexplorer"))
    order = np.random.default_rng(6).permutation(len(columns["pe_array"]))
    for part in ("technology", "stacks"):
        columns[f"tier4_{part}"] = taken(columns, order)[f"tier1_{part}"]
    answers = []
    for switch in "01":
        monkeypatch.setenv(compiled.SWITCH, switch)
        answers.append(evaluator("mixtral-8x7b", "decode", options).evaluate(columns))
    assert_same_bits(*answers)


def neighbors(n_each):
    """Random designs, each followed by others that differ in vector length and formats."""
    here, rng = space("memexplorer"), np.random.default_rng(5)
    rows = np.repeat(here.sample(rng, 100 if n_each < 50 else 10), n_each, axis=0)
    for i, parameter in enumerate(here.parameters):
        if parameter.name == "vector_length" or parameter.name.endswith("_format"):
            rows[:, i] = rng.integers(0, here.structure.n_levels[i], len(rows))
    return here.columns(rows)


@needs_numba
@pytest.mark.parametrize(("case", "switch", "n_each"), in_turn(CASES[::6], "01", [12, 200]))
def test_repeated_designs_are_worked_out_once_with_the_same_bits(case, switch, n_each, monkeypatch):
    monkeypatch.setenv(compiled.SWITCH, switch)
    one, sweep = evaluator(*case), neighbors(n_each)
    assert one.preparation.repetition(sweep) > 1.5
    assert (one.preparation.repetition(sweep, is_whole=True) > 1.25) == (n_each > 50)
    together = one.evaluate(sweep)
    monkeypatch.setattr(Preparation, "repetition", lambda *_, **__: 1.0)
    assert_same_bits(together, one.evaluate(sweep))


def test_designs_that_differ_in_what_operators_see_are_not_taken_for_equal():
    here, one = space("memexplorer"), evaluator("llama-3.3-70b", "decode", 0)
    rows = here.sample(np.random.default_rng(6), 4000)
    free = {"vector_length"}
    kept = [i for i, parameter in enumerate(here.parameters) if parameter.name not in free]
    columns = here.columns(rows)
    for name in ("weight_format", "activation_format", "kv_format"):
        column = columns[name]
        widths = np.array(
            [1 if "8" in str(v) else 2 if "16" in str(v) else 0 for v in column.values]
        )
        rows[:, here.names.index(name)] = widths[column.codes]
    expected = len(np.unique(rows[:, kept], axis=0))
    number, position = distinct(*one.preparation._key(columns, is_whole=False))
    assert len(position) == len(np.unique(number)) == expected


def test_a_chunk_never_grows_past_the_largest(monkeypatch):
    seen = []
    distinct_to_operators = Preparation.distinct_to_operators

    def noting(self, columns, tells_vectors_apart):
        seen.append(len(columns["pe_array"]))
        return distinct_to_operators(self, columns, tells_vectors_apart)

    monkeypatch.setattr(Preparation, "distinct_to_operators", noting)
    monkeypatch.setattr(
        Preparation, "repetition", lambda *_, is_whole=False: 1.0 if is_whole else 1000.0
    )
    base = neighbors(1)
    many = {
        name: Column(item.values, np.resize(item.codes, LARGEST_CHUNK + 7))
        for name, item in base.items()
    }
    evaluator("llama-3.3-70b", "decode", 0).evaluate(many, ["tdp_watts"])
    assert seen == [LARGEST_CHUNK, 7]


@given(
    st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 90)), min_size=1, max_size=60),
    st.booleans(),
)
def test_distinct_combinations_are_numbered_like_a_dictionary_of_them(pairs, is_wide):
    first, second = (np.array(part, dtype=np.int64) for part in zip(*pairs, strict=True))
    wide = np.where(second < 0, second, second * 10**6)
    key, limit = combined(first, wide if is_wide else second)
    number, position = distinct(key, limit)
    assert (key >= 0).all() and (key < limit).all()
    assert (limit == 1) == (len(position) == 1)
    assert len(position) == len(set(pairs))
    found = [(int(first[i]), int(second[i])) for i in position]
    assert [found[i] for i in number] == pairs


ordinary = st.just(0.0) | st.floats(1e-30, 1e30)


@given(ordinary, ordinary, st.booleans())
def test_an_operation_on_numbers_is_the_operation_on_arrays(a, b, c):
    arguments = {
        formula_operations.where: (c, a, b),
        formula_operations.is_anywhere: (c,),
        formula_operations.larger: (a, b),
        formula_operations.smaller: (a, b),
        formula_operations.rounded_up: (a,),
        formula_operations.square_root: (a,),
        formula_operations.inverse: (a,),
    }
    assert set(arguments) == set(machine_code._ON_NUMBERS)
    for operation, values in arguments.items():
        on_arrays = np.asarray(operation(*(np.array([value]) for value in values)))
        assert float(machine_code._ON_NUMBERS[operation](*values)) == on_arrays.item()


# When it is used.


@pytest.fixture
def fresh(monkeypatch):
    """A process that has evaluated nothing."""
    monkeypatch.delenv(compiled.SWITCH, raising=False)
    monkeypatch.setattr(compiled, "_progress", {"designs": 0})
    monkeypatch.setattr(compiled, "loop", cache(lambda: None))
    monkeypatch.setattr(compiled, "_can_load", lambda: True)
    monkeypatch.setattr(compiled, "has_numba", lambda: True)


@pytest.mark.parametrize("on_disk", [True, False])
def test_the_loop_is_started_when_its_start_would_have_paid(fresh, on_disk, monkeypatch):
    monkeypatch.setattr(compiled, "is_on_disk", lambda: on_disk)
    enough = compiled.LOAD_AFTER if on_disk else compiled.COMPILE_AFTER
    step = 100_000
    used = [compiled.is_worthwhile(step) for _ in range(0, 2 * enough, step)]
    assert used.index(True) == enough // step
    assert all(used[enough // step :])


def test_without_numba_or_with_the_switch_off_nothing_is_compiled(fresh, monkeypatch):
    monkeypatch.setenv(compiled.SWITCH, "0")
    assert not compiled.is_worthwhile(10**12)
    monkeypatch.delenv(compiled.SWITCH)
    monkeypatch.setattr(compiled, "has_numba", lambda: False)
    assert not compiled.is_worthwhile(10**12)


def test_a_switch_that_makes_no_sense_is_refused_by_the_evaluator(
    monkeypatch,
):
    request = Request(model="llama-3.3-70b", phase="decode", trace="osworld")
    monkeypatch.setenv(compiled.SWITCH, "yes")
    with pytest.raises(InputError, match=r"CODESIGN_COMPILED: expected 0 .* got 'yes'"):
        NpuEvaluator(request)
    monkeypatch.setenv(compiled.SWITCH, "1")
    monkeypatch.setattr(compiled, "has_numba", lambda: False)
    with pytest.raises(InputError, match="without numba; pip install"):
        NpuEvaluator(request)


def test_one_design_is_evaluated_without_loading_numba(fresh, monkeypatch):
    monkeypatch.setattr(compiled, "_can_load", pytest.fail)
    evaluator(*CASES[0]).evaluate(taken(designs("memexplorer"), slice(1)))


def run_python(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={}
    )
    return done.stdout.strip()


LOOPS = """
import os
from codesign.evaluators.npu import compiled
from codesign.models.machines.npu import machine_code
for os.environ["XDG_CACHE_HOME"] in {folders}:
    machine_code.cache_folder.cache_clear()
    loop = compiled.loop.__wrapped__()
    print(machine_code.cache_folder() is None, type(loop._cache).__name__)
"""


@needs_numba
def test_where_nothing_can_be_written_the_loop_stays_in_memory(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    printed = run_python(LOOPS.format(folders=[str(blocked), str(tmp_path)]))
    assert printed == "True NullCache\nFalse FunctionCache"


@needs_numba
def test_machine_code_is_kept_under_the_content_of_the_source(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    original = machine_code.cache_folder.__wrapped__()
    assert original is not None and original == machine_code.cache_folder.__wrapped__()
    package = tmp_path / "package"
    machine = package / "models" / "machines" / "npu"
    for folder in (package / "models" / "hardware", machine):
        folder.mkdir(parents=True)
        (folder / "formula.py").write_text("x = 1")
    names = []
    for text in ("x = 1", "x = 2", "x = 1"):
        (package / "models" / "hardware" / "formula.py").write_text(text)
        monkeypatch.setattr(machine_code, "__file__", str(machine / "machine_code.py"))
        names.append(machine_code.cache_folder.__wrapped__())
    assert names[0] == names[2] != names[1]


_FAULTS = """
import resource
import numpy as np
from codesign.evaluators.npu import compiled

def arrays_of_a_batch():
    arrays = [np.ones(1 << 17) for _ in range(12)]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if {is_kept}:
    compiled._keep_freed_memory()
arrays_of_a_batch()
before = faults()
for _ in range(20):
    arrays_of_a_batch()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do not adapt")
def test_a_batch_takes_up_the_memory_that_the_one_before_has_freed():
    faults = [int(run_python(_FAULTS.format(is_kept=is_kept))) for is_kept in (False, True)]
    if not faults[0]:
        pytest.skip("the system does not count faults, or the C library keeps memory by itself")
    assert faults[1] < faults[0] / 10

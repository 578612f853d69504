"""Whatever an input file or a command line has in it, it is read or refused, never a traceback.

Cases are numbered: a failure says its number, and ``case_of(number)`` makes it again.
"""

from __future__ import annotations

import random
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from codesign.api import load_space
from codesign.base.errors import CodesignError
from codesign.base.resources import listed
from codesign.base.schema import Document, parse_record, read_count
from codesign.base.units import Unit, parse_quantity
from codesign.cli.evaluation import read_pairs
from codesign.models.deployments.queueing.request_arrivals import read_arrivals
from codesign.models.memtech import load_technology
from codesign.models.workload import load_model, summary
from codesign.models.workload.request import Request
from codesign.search.campaign.campaign_definition import load_definition
from codesign.space.expression_parser import parse_expression

N_ALWAYS, N_LONG = 240, 100_000
_MOST_MEMORY_MORE = 500 << 20
_MODELS = Path(load_technology.__code__.co_filename).parents[1] / "workload" / "models"
_CHECKPOINT = Path(__file__).parents[1] / "unit" / "models" / "quantization" / "byte_model"
_CONFIG = (
    '{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "vocab_size": 32000,'
    ' "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,'
    ' "hidden_act": "silu", "rope_scaling": {"factor": 2.0}, "tie_word_embeddings": false}'
)
_TRACE = "arrival_s,prompt_tokens,generated_tokens\n0.5,100,20\n1.5,2000,3\n1.75,7,1\n"
_WORDS = (
    "=", "'", '"', "[", "]", "{", "}", ": ", "- ", "\n", "#", "&a ", "*a", "<<: ", "!!python/x ",
    "|\n", "\t", "\0", "\x1b[31m", "\u202e", "é", "\ud83d", "null", "true", "~", "-1", "0", "1e309",
    "9" * 20, "9" * 5000, ".nan", ".inf", "-0.0", "1 GB^99999", "GB/s", "%", "2**9999999",
    "sum(", "tier, ", "not ", " in ", "<=", "a[b]", "[/red]", "=HYPERLINK(1)", "<script>",
    "x" * 300, "(" * 40, "[" * 2000, "1_000", "0x10", "32K", "99999999999Mi", "../..", "none",
)  # fmt: skip


class Case(NamedTuple):
    """One input: its kind, its text, and what reads it."""

    kind: str
    text: str
    read: Callable[[str, Path], object]


def _from_file(read, ending):
    def reading(text, folder):
        path = folder / f"fuzzed{ending}"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return read(str(path))

    return reading


def _request(text, _):
    pairs = read_pairs("--request", text.split(" ; "), as_yaml=True)
    values = {"model": "llama-3.3-70b", "phase": "prefill", "trace": "osworld", **pairs}
    return parse_record(Document("--request", values, {}), Request)


def _settings(text, _):
    space = _shared_space()
    pairs = read_pairs("--set", text.split(" ; "))
    return space.encode({**space.designs["P1"], **pairs}, "design")


def _counted(path):
    return summary(load_model(path))


_SPACES = []


def _shared_space():
    if not _SPACES:
        _SPACES.append(load_space("memexplorer"))
    return _SPACES[0]


def _expression(text, _):
    units = {"width": Unit(1.0), "bandwidth": Unit(1.0, (-1, 0, 1, 0, 0, 0, 0, 0, 0))}
    return parse_expression(text, units).evaluate({"width": 3.0, "bandwidth": 1e9})


def _seeds():
    """For each kind of input, texts that are well formed, and what reads them."""

    def texts(kind):
        return [path.read_text("utf-8") for path in listed(kind).values()]

    models = [path.read_text("utf-8") for path in sorted(_MODELS.glob("*.yaml"))]
    # A campaign is called as its file; each case has the same.
    campaigns = [re.sub("(?m)^name: .*$", "name: fuzzed", text) for text in texts("runs")]
    small_spaces = [text for text in texts("spaces") if len(text) < 4000]
    return {
        "memtech": (texts("memtech"), _from_file(load_technology, ".yaml")),
        "space": (small_spaces, _from_file(load_space, ".yaml")),
        "campaign": (campaigns, _from_file(load_definition, ".yaml")),
        "model": (models, _from_file(_counted, ".yaml")),
        "config": ([_CONFIG], _from_file(_counted, ".json")),
        "trace": ([_TRACE], _from_file(lambda path: read_arrivals(Path(path)), ".csv")),
        "quantity": (
            ["819.2 GB/s", "24 GiB", "3.9 pJ/bit", "1e-3 s", "5 %"],
            lambda text, _: parse_quantity(text, "GB/s"),
        ),
        "count": (["32K", "8", "1 Mi"], lambda text, _: read_count(text)),
        "expression": (
            ["width <= 2 and not (width in [1, 2])", "max(bandwidth / 2, 1 GB/s) * ceil(width)"],
            _expression,
        ),
        "set": (["pe_array=[2048, 64] ; vector_length=512 ; tier1_technology=hbf"], _settings),
        "request": (["batch=8 ; prompt_tokens=32K ; trace=null", "max_batch=[1, 2]"], _request),
    }


_KINDS = _seeds()
_WEIGHTS = {"space": 1, "campaign": 1}
"""The slow ones come less often; of the others four as many."""


def case_of(number):
    """The case of a number: a well-formed text with 1 to 6 mutations, or bytes without sense."""
    rng = random.Random(number)
    kinds = list(_KINDS)
    kind = rng.choices(kinds, [_WEIGHTS.get(name, 4) for name in kinds])[0]
    seeds, read = _KINDS[kind]
    if rng.random() < 0.05:
        text = "".join(chr(rng.randrange(0xD7FF)) for _ in range(rng.randrange(200)))
    else:
        text = rng.choice(seeds)
        for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
            text = _mutated(text, rng)
    return Case(kind, text, read)


def _mutated(text, rng):
    start = rng.randrange(len(text) + 1)
    end = min(len(text), start + rng.choice([0, 1, 2, 5, 20, 200]))
    action = rng.randrange(5)
    if action == 0:  # something else in its place
        return text[:start] + rng.choice(_WORDS) + text[end:]
    if action == 1:  # gone
        return text[:start] + text[end:]
    if action == 2:  # twice
        return text[:end] + text[start:end] * rng.choice([1, 1, 3, 50]) + text[end:]
    if action == 3:  # a value of a key, or an item, replaced whole
        places = [i for i, character in enumerate(text) if character in ":,[="]
        if places:
            start = rng.choice(places) + 1
            end = min((i for i in range(start, len(text)) if text[i] in ",]}\n"), default=len(text))
            return f"{text[:start]} {rng.choice(_WORDS)}{text[end:]}"
    lines = text.splitlines(keepends=True)  # lines in another order
    rng.shuffle(lines) if rng.random() < 0.3 else lines.reverse()
    return "".join(lines)


def outcome_of(number, folder):
    """``read`` or ``refused``; any other exception goes on, with the number of the case."""
    case = case_of(number)
    try:
        case.read(case.text, folder)
    except CodesignError as error:
        assert str(error).strip(), f"case {number}: {case.kind}: no message"
        return "refused"
    except Exception as error:
        error.add_note(f"case {number}: {case.kind}: {case.text[:200]!r}")
        raise
    return "read"


def _outcomes(numbers, folder):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = {outcome_of(number, folder) for number in numbers}
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert more < _MOST_MEMORY_MORE
    return outcomes


def test_fuzzed_inputs_are_read_or_refused(tmp_path):
    assert _outcomes(range(N_ALWAYS), tmp_path) == {"read", "refused"}


def _checkpoint_outcomes(numbers, folder):
    """Outcomes of checkpoints with a mutated configuration, or weights with damaged bytes."""
    from codesign.models.quantization.model_checkpoint import load_checkpoint, read_tokens

    config, weights = ((_CHECKPOINT / name) for name in ("config.json", "model.safetensors"))
    outcomes = set()
    for number in numbers:
        rng = random.Random(number)
        text, content = config.read_text("utf-8"), bytearray(weights.read_bytes())
        if number % 3:
            for _ in range(rng.choice([1, 1, 2, 6])):
                text = _mutated(text, rng)
        else:
            del content[rng.choice([len(content), rng.randrange(len(content))]) :]
            for _ in range(rng.randrange(3)):
                content[rng.randrange(max(1, min(len(content), 2000)))] = rng.randrange(256)
        (folder / "config.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        (folder / "model.safetensors").write_bytes(content)
        try:
            decoder = load_checkpoint(folder)
            decoder.logits(read_tokens(folder, config)[None, :8])
            outcomes.add("read")
        except CodesignError as error:
            assert str(error).strip(), f"checkpoint {number}: no message"
            outcomes.add("refused")
        except Exception as error:
            error.add_note(f"checkpoint {number}: {text[:300]!r}")
            raise
    return outcomes


def test_fuzzed_checkpoints_are_read_or_refused(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    assert _checkpoint_outcomes(range(60), tmp_path) == {"read", "refused"}


@pytest.mark.slow
def test_ten_thousand_fuzzed_checkpoints_are_read_or_refused(tmp_path):
    pytest.importorskip("torch")
    assert _checkpoint_outcomes(range(60, 10_000), tmp_path) == {"read", "refused"}


@pytest.mark.slow
def test_a_hundred_thousand_fuzzed_inputs_are_read_or_refused(tmp_path):
    assert _outcomes(range(N_ALWAYS, N_LONG), tmp_path) == {"read", "refused"}

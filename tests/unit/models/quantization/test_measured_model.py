"""A real, tiny model in formats: the order of formats, what each algorithm promises, the table."""

import importlib.util
import itertools
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg

from codesign.base.errors import InfeasibleError, InputError, UnknownNameError
from codesign.models.quantization import find_block_format, quantize
from codesign.models.quantization.published import FormatChoice

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch

from codesign.models.quantization.accuracy_table import TableSettings, measure_table, parse_choice
from codesign.models.quantization.decoder import Decoder
from codesign.models.quantization.measured import ADDITIVITY_ERROR
from codesign.models.quantization.measurement import measure, split_text
from codesign.models.quantization.mixture import (
    best_mixture,
    mixed_decoder,
    narrowest_mixture,
    sensitivities,
)
from codesign.models.quantization.mixture_table import MixtureSettings, mixture_table
from codesign.models.quantization.model_checkpoint import fingerprint, load_checkpoint, read_tokens
from codesign.models.quantization.quantized_model import algorithm_steps, quantized
from codesign.models.quantization.transformations import hadamard, largest_inputs, rotated, smoothed
from codesign.models.quantization.weight_algorithms import clipped, gptq
from codesign.models.workload import bits_per_weight

BYTE_MODEL = Path(__file__).parent / "byte_model"
DOWN = "model.layers.1.mlp.down_proj"


def fidelity(decoder, sequences, *formats, algorithm="rtn"):
    choice = FormatChoice(*(formats * 3 if len(formats) == 1 else formats), algorithm=algorithm)
    trial = quantized(decoder, choice, sequences.calibration)
    return measure(decoder, trial, sequences.evaluation)


def divergence(decoder, sequences, *formats, algorithm="rtn"):
    return fidelity(decoder, sequences, *formats, algorithm=algorithm).divergence_nats.mean


def second_moment(inputs):
    """(in, in) mean outer product of (..., in) inputs, in float32."""
    flat = inputs.flatten(0, -2).float()
    return flat.T @ flat / len(flat)


def output_error(weights, stored, moment):
    """Mean squared error of the outputs, summed over them."""
    error = (stored - weights).double()
    return float(((error @ moment.double()) * error).sum())


@pytest.fixture(scope="module")
def inputs(byte_model, sequences):
    """Inputs of every product over the calibration text."""
    kept = {}
    with torch.no_grad():
        byte_model.logits(sequences.calibration, lambda name, values: kept.update({name: values}))
    return kept


def test_the_model_reads_code(byte_model, sequences):
    result = measure(byte_model, byte_model, sequences.evaluation[:4])
    assert result.perplexity.mean < 12  # of 256 bytes
    assert result.divergence_nats.mean == pytest.approx(0, abs=1e-9)
    assert result.agreement.mean == 1.0


def test_formats_diverge_in_the_order_of_the_literature(byte_model, sequences):
    order = ["int8-g32", "mxint8", "mxfp6", "mxfp8-e5m2", "nvfp4", "mxfp4", "int3-g32"]
    results = [fidelity(byte_model, sequences, name).divergence_nats for name in order]
    for better, worse in itertools.pairwise(results):
        assert better.high < worse.low


@pytest.mark.parametrize("names", [("mxfp4", "mxfp4", "mxfp4"), ("mxfp8", "nvfp4", "mxint4")])
def test_the_divergences_of_the_parts_add_up(byte_model, sequences, names):
    weights, activations, kv_cache = names
    parts = [("bf16", "bf16", kv_cache), ("bf16", activations, "bf16"), (weights, "bf16", "bf16")]
    total = sum(divergence(byte_model, sequences, *part) for part in parts)
    error = math.log(total / divergence(byte_model, sequences, *names))
    assert abs(error) < ADDITIVITY_ERROR


def test_gptq_and_clipping_lower_the_error_of_every_product(byte_model, inputs):
    for name in ("mxfp4", "nvfp4", "int4-g32", "int4"):
        block_format = find_block_format(name)
        for product, values in inputs.items():
            weights, moment = byte_model.weights[f"{product}.weight"], second_moment(values)
            nearest = output_error(weights, quantize(weights, block_format), moment)
            assert output_error(weights, gptq(weights, moment, block_format), moment) < nearest
            cut = output_error(weights, clipped(weights, moment, block_format), moment)
            assert cut < nearest * 1.001, (name, product)  # by blocks, not by rows


def test_gptq_writes_numbers_of_the_format(byte_model, inputs):
    weights = byte_model.weights[f"{DOWN}.weight"]
    stored = gptq(weights, second_moment(inputs[DOWN]), find_block_format("mxfp4"))
    # A block whose largest element was rounded up may take another scale, of coarser steps.
    again = quantize(stored, find_block_format("mxfp4"))
    assert float((again == stored).float().mean()) > 0.99


def test_gptq_without_correlations_is_rounding_to_the_nearest(byte_model):
    weights = byte_model.weights[f"{DOWN}.weight"]
    for name in ("mxfp4", "nvfp4", "int4", "int4-g32"):
        block_format = find_block_format(name)
        stored = gptq(weights, torch.eye(192), block_format)
        assert torch.equal(stored, quantize(weights, block_format)), name


def test_gptq_of_two_channels_is_worked_out_by_hand():
    # The first channel is rounded from 0.6 to 1; its error of -0.4 moves to the second by the
    # regression of the first on the second, 0.5 / (1 + 0.01): 2 - 0.198 is rounded to 2, not 3.
    moment = torch.tensor([[1.0, 0.5], [0.5, 1.0]])
    weights = torch.tensor([[0.6, 2.6]])
    block_format = find_block_format("int4")
    scaled = torch.cat([weights, torch.tensor([[7.0]])], dim=1)
    whole = torch.block_diag(moment, torch.ones(1, 1))
    stored = gptq(scaled, whole, block_format)
    assert stored[0].tolist() == pytest.approx([1.0, 2.0, 7.0], rel=1e-3)
    assert quantize(scaled, block_format)[0].tolist() == pytest.approx([1.0, 3.0, 7.0], rel=1e-3)


def test_rotations_and_scales_are_exact_in_full_precision(byte_model, sequences):
    tokens = sequences.evaluation[:2]
    largest = largest_inputs(byte_model, sequences.calibration)
    for changed in (rotated(byte_model), smoothed(byte_model, largest)):
        with torch.no_grad():
            difference = changed.logits(tokens) - byte_model.logits(tokens)
        assert float(difference.abs().max()) < 2e-4


@pytest.mark.parametrize("size", [1, 32, 96, 64])
def test_a_hadamard_matrix_is_orthogonal(size):
    matrix = hadamard(size)
    identity = (matrix @ matrix.T).numpy()
    np.testing.assert_allclose(identity, np.eye(size), atol=1e-12)
    assert torch.equal(matrix, hadamard(size))
    if size & (size - 1) == 0:  # of a power of two it is that of scipy, with random signs
        theirs = scipy.linalg.hadamard(size) / size**0.5
        np.testing.assert_allclose(abs(matrix.numpy() @ theirs.T), np.eye(size), atol=1e-12)


def with_outlier(decoder):
    """The same function with an outlier channel, as large models have them: a norm's gain is
    raised and the products behind it take it back."""
    weights = dict(decoder.weights)
    for layer in range(decoder.shape.num_hidden_layers):
        prefix = f"model.layers.{layer}."
        for norm, products in (
            ("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
            ("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj")),
        ):
            gain = torch.ones(decoder.shape.hidden_size)
            gain[5] = 60.0
            weights[f"{prefix}{norm}.weight"] = weights[f"{prefix}{norm}.weight"] * gain
            for product in products:
                weights[f"{prefix}{product}.weight"] = weights[f"{prefix}{product}.weight"] / gain
    return Decoder(decoder.shape, weights)


def test_rotations_and_scales_flatten_outliers_and_save_what_they_cost(byte_model, sequences):
    decoder = with_outlier(byte_model)
    largest = largest_inputs(decoder, sequences.calibration)["model.layers.1.mlp.up_proj"]
    flat = largest_inputs(rotated(decoder), sequences.calibration)["model.layers.1.mlp.up_proj"]
    assert float(largest.max() / largest.median()) > 20
    assert float(flat.max() / flat.median()) < 3
    plain = divergence(decoder, sequences, "int8", "int8", "bf16")
    for algorithm in ("quarot", "smoothquant"):
        saved = divergence(decoder, sequences, "int8", "int8", "bf16", algorithm=algorithm)
        assert saved < plain / 3, algorithm


def test_gptq_helps_the_whole_model(byte_model, sequences):
    formats = ("mxfp4", "bf16", "bf16")
    nearest = fidelity(byte_model, sequences, *formats).divergence_nats
    helped = fidelity(byte_model, sequences, *formats, algorithm="gptq").divergence_nats
    assert helped.high < nearest.low


def settings(held_out, **changed):
    values = {"context_length": 64, "n_evaluation": 3, "n_calibration": 2, **changed}
    return TableSettings(**{"model": BYTE_MODEL, "text": held_out, **values})


def test_a_table_is_resumed_and_equals_an_uninterrupted_one(tmp_path, held_out, told):
    choices = [parse_choice(name, "rtn", "test") for name in ("mxfp8", "mxfp4/bf16/bf16")]
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    measure_table(settings(held_out), choices, whole)
    measure_table(settings(held_out), choices[:1], parts)
    told.clear()
    measure_table(settings(held_out), choices, parts)
    assert told == [("sequences", 6, 3), *[("sequences", 1)] * 3]
    assert parts.read_bytes() == whole.read_bytes()
    with pytest.raises(InputError, match=r"whole\.json: has a table with another seed"):
        measure_table(settings(held_out, seed=1), choices, whole)
    document = json.loads(whole.read_text("utf-8"))
    del document["rows"][0]["weight_format"]
    for damaged in ("[]", json.dumps(document)):
        whole.write_text(damaged, "utf-8")
        with pytest.raises(InputError, match="expected an accuracy table"):
            measure_table(settings(held_out), choices, whole)


def changed_folder(folder, **keys):
    shutil.copytree(BYTE_MODEL, folder)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **keys}), "utf-8")
    return folder


def test_a_token_attends_to_its_window_alone(tmp_path):
    decoder = load_checkpoint(
        changed_folder(tmp_path / "m", sliding_window=8, model_type="mistral")
    )
    assert set(decoder.shape.windows) == {8}
    shape = replace(decoder.shape, num_hidden_layers=1)
    tokens = torch.randint(0, 256, (2, 24), generator=torch.Generator().manual_seed(0))
    # Positions are relative, so that a layer sees a window as it would the sequence alone.
    full = Decoder(replace(shape, windows=()), decoder.weights)
    alone = [full.logits(tokens[:, max(end - 8, 0) : end])[:, -1] for end in range(1, 25)]
    windowed = Decoder(shape, decoder.weights).logits(tokens)
    assert torch.allclose(windowed, torch.stack(alone, dim=1), atol=1e-4)
    assert not torch.allclose(windowed, full.logits(tokens), atol=1e-2)


def test_what_cannot_be_used_is_refused_in_a_line(tmp_path, held_out):
    with pytest.raises(InputError, match=r"expected a folder with config\.json"):
        load_checkpoint(tmp_path)
    empty = changed_folder(tmp_path / "empty")
    (empty / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"expected weights in \*\.safetensors, got none"):
        load_checkpoint(empty)
    (empty / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"model\.safetensors"):
        load_checkpoint(empty)
    with pytest.raises(UnknownNameError, match="model type 'gpt2'"):
        load_checkpoint(changed_folder(tmp_path / "type", model_type="gpt2"))
    with pytest.raises(InputError, match="none called 'model\\.layers\\.2"):
        load_checkpoint(changed_folder(tmp_path / "deep", num_hidden_layers=3))
    with pytest.raises(InputError, match=r"expected the size \(256, 32\)"):
        load_checkpoint(changed_folder(tmp_path / "narrow", hidden_size=32))
    with pytest.raises(UnknownNameError, match="scaling of positions 'yarn'"):
        load_checkpoint(changed_folder(tmp_path / "yarn", rope_scaling={"rope_type": "yarn"}))
    with pytest.raises(InputError, match=r"expected tokenizer\.json"):
        read_tokens(changed_folder(tmp_path / "words", vocab_size=512), held_out)
    with pytest.raises(InputError, match="expected a text of 1,280 tokens"):
        split_text(torch.zeros(100, dtype=torch.long), 128, 5, 5)
    with pytest.raises(InputError, match="expected one of rtn, gptq, clipping"):
        algorithm_steps("gptq+clipping")
    with pytest.raises(UnknownNameError, match="Did you mean 'gptq'"):
        parse_choice("mxfp4", "gtpq", "--formats")
    with pytest.raises(InputError, match="WEIGHTS/ACTIVATIONS/KV_CACHE"):
        parse_choice("mxfp4/mxfp8", "rtn", "--formats")
    output = tmp_path / "table.json"
    with pytest.raises(InputError, match="--device nowhere"):
        measure_table(settings(held_out, device="nowhere"), [], output)
    assert not output.exists()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"num_hidden_layers": 0}, r"config\.json:1: num_hidden_layers: "),
        ({"num_hidden_layers": 10_000_000}, r"num_hidden_layers: expected at most 10000 layers"),
        ({"rms_norm_eps": float("nan")}, r"config\.json:1: rms_norm_eps: "),
        ({"rms_norm_eps": True}, r"config\.json:1: rms_norm_eps: "),
        ({"rope_theta": 0}, r"config\.json:1: rope_theta: "),
        ({"rope_scaling": [1]}, r"config\.json:1: rope_scaling: expected keys and values"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8}}, r"rope_scaling\.low_freq_factor"),
        ({"num_attention_heads": 0}, r"num_attention_heads"),
        ({"num_key_value_heads": 3}, r"num_key_value_heads"),
        ({"hidden_act": "gelu"}, r"hidden_act: .*silu"),
    ],
)
def test_a_configuration_out_of_bounds_is_refused_at_its_key(tmp_path, keys, message):
    with pytest.raises(InputError, match=message):
        load_checkpoint(changed_folder(tmp_path / "model", **keys))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model.norm.weight", torch.full((64,), math.nan), "expected finite weights"),
        ("model.norm.weight", torch.ones(63), r"model\.norm\.weight: expected the size \(64,\)"),
        ("model.norm.weight", torch.ones(64, dtype=torch.int8), "expected one of F64.*got I8"),
        ("model.layers.1.mlp.up_proj.weight", torch.ones(191, 64), r"expected the size \(192, 64"),
        ("model.layers.0.mlp.up_proj.bias", torch.ones(192), "expected only the tensors"),
        ("model.layers.2.mlp.up_proj.weight", torch.ones(192, 64), "expected only the tensors"),
    ],
)
def test_weights_that_are_not_those_of_the_configuration_are_refused(
    tmp_path, name, value, message
):
    from safetensors.torch import load_file, save_file

    path = changed_folder(tmp_path / "model") / "model.safetensors"
    save_file({**load_file(path), name: value}, path)
    with pytest.raises(InputError, match=message):
        load_checkpoint(path.parent)


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "config.json", "text"])
def test_a_table_is_of_every_byte_that_was_read(tmp_path, held_out, file):
    folder, text = changed_folder(tmp_path / "model"), tmp_path / "text"
    shutil.copy(held_out, text)
    (folder / "tokenizer.json").write_text("{}", "utf-8")
    before = fingerprint(folder, text)
    path = text if file == "text" else folder / file
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # the last one: no beginning is enough
    path.write_bytes(content)
    assert fingerprint(folder, text) != before


@pytest.fixture(scope="module")
def measured(byte_model, sequences):
    formats = ["mxfp4", "mxfp8"]
    return sensitivities(byte_model, formats, sequences.calibration, sequences.evaluation[6:])


def test_a_mixture_costs_what_its_products_do_and_less_than_fewer_bits(
    byte_model, sequences, measured
):
    costs = []
    for bits in (4.25, 5.0, 6.0, 8.25):
        mixture = best_mixture(measured, bits)
        assert mixture.average_bits <= bits + 1e-9
        trial = mixed_decoder(byte_model, mixture.formats, sequences.calibration)
        cost = measure(byte_model, trial, sequences.evaluation[:6]).divergence_nats.mean
        assert cost == pytest.approx(mixture.expected_divergence_nats, rel=0.4)  # other text
        costs.append(cost)
    assert costs == sorted(costs, reverse=True)
    straight = costs[0] + (costs[-1] - costs[0]) * (5.0 - 4.25) / 4.0
    assert costs[1] < 0.75 * straight  # the sensitive products went first


def test_the_best_mixture_is_that_of_all_mixtures(measured):
    few = measured[:8]
    n_weights = sum(item.n_weights for item in few)
    totals = []
    for names in itertools.product(["mxfp4", "mxfp8"], repeat=len(few)):
        pairs = list(zip(few, names, strict=True))
        bits = sum(
            item.n_weights * find_block_format(name).bits_per_element for item, name in pairs
        )
        totals.append((bits / n_weights, sum(item.divergence_nats[name] for item, name in pairs)))
    for limit in (4.3, 5.0, 6.1, 8.0):
        expected = min(cost for bits, cost in totals if bits <= limit + 1e-9)
        assert best_mixture(few, limit).expected_divergence_nats == pytest.approx(expected)
        fewest = min(bits for bits, cost in totals if cost <= expected * (1 + 1e-12))
        mixture = narrowest_mixture(few, expected * (1 + 1e-12))
        assert mixture.average_bits == pytest.approx(fewest)
    with pytest.raises(InfeasibleError, match=r"expected 4\.25 bits or more on average, got 4"):
        best_mixture(few, 4.0)
    with pytest.raises(InfeasibleError, match="expected a limit of"):
        narrowest_mixture(few, 1e-9)


class KillError(Exception):
    """A measurement ends here."""


def mixture_settings(held_out, formats):
    return MixtureSettings(
        BYTE_MODEL, held_out, formats, context_length=32, n_sequences=2, n_calibration=1
    )


def test_a_mixture_that_was_killed_goes_on_and_writes_the_same_bytes(
    tmp_path, held_out, told, ctrl_c
):
    settings = mixture_settings(held_out, ("mxfp4", "mxfp8"))
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    document = mixture_table(settings, [5.0, 6.0], 0.5, whole)
    assert [mixture["average_bits"] <= 6.0 for mixture in document["mixtures"][:2]] == [True, True]
    for mixture in document["mixtures"]:
        # The bits without scales of its value for a space are its bits but a quarter.
        bits = bits_per_weight(mixture["weight_format"], "plain")
        assert bits == pytest.approx(mixture["average_bits"] - 0.25, abs=1e-5)
    subject = "products in each format"
    ctrl_c(5, subject)
    with pytest.raises(KeyboardInterrupt):
        mixture_table(settings, [5.0, 6.0], 0.5, parts)
    told.clear()
    again = mixture_table(settings, [5.0, 6.0], 0.5, parts)
    assert told == [(subject, 28, 5), *[(subject, 1)] * 23]
    assert again == document
    assert parts.read_bytes() == whole.read_bytes()
    others = mixture_settings(held_out, ("mxfp8",))
    fewer = mixture_table(others, [8.25], None, parts)
    assert told[-1] == (subject, 14, 14)
    assert [set(item["divergence_nats"]) for item in fewer["sensitivities"]] == [{"mxfp8"}] * 14
    with pytest.raises(InputError, match=r"parts\.json: has a table with another quantization_alg"):
        mixture_table(replace(settings, algorithm="clipping"), [6.0], None, parts)
    parts.write_text("{}", "utf-8")
    with pytest.raises(InputError, match="expected an accuracy table"):
        mixture_table(settings, [6.0], None, parts)


def test_a_mixture_of_nothing_is_refused(held_out, tmp_path):
    formats, output = ("mxfp4", "mxfp8"), tmp_path / "mixtures.json"
    with pytest.raises(InputError, match="--average-bits or --divergence, got neither"):
        mixture_table(MixtureSettings(BYTE_MODEL, held_out, formats), [], None, output)
    with pytest.raises(InputError, match="bf16: expected a format of blocks"):
        mixture_table(MixtureSettings(BYTE_MODEL, held_out, ("bf16",)), [5.0], None, output)
    with pytest.raises(InputError, match="rtn, gptq or clipping for a mixture"):
        mixture_table(MixtureSettings(BYTE_MODEL, held_out, formats, "quarot"), [5.0], None, output)
    with pytest.raises(InputError, match=r"--average-bits: expected 4\.25 or more, got 4"):
        mixture_table(MixtureSettings(BYTE_MODEL, held_out, formats), [5.0, 4.0], None, output)
    assert not output.exists()


@pytest.mark.slow
def test_a_model_trained_anew_has_the_same_order(sequences):
    path = Path(__file__).parent / "train_byte_model.py"
    spec = importlib.util.spec_from_file_location("training", path)
    assert spec is not None and spec.loader is not None
    training = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(training)
    decoder = training.train(steps=200, seed=5)
    test_formats_diverge_in_the_order_of_the_literature(decoder, sequences)


FAMILIES = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", {"attention_bias": False}),
    "llama3": (
        "LlamaConfig",
        "LlamaForCausalLM",
        {
            "rope_theta": 500000.0,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        },
    ),
    "mistral": ("MistralConfig", "MistralForCausalLM", {"sliding_window": 16}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {"head_dim": 32}),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_decoder_is_that_of_transformers(family, tmp_path):
    transformers = pytest.importorskip("transformers")
    config_name, model_name, options = FAMILIES[family]
    config = getattr(transformers, config_name)(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        **options,
    )
    torch.manual_seed(0)
    theirs = getattr(transformers, model_name)(config).eval()
    theirs.save_pretrained(tmp_path)
    decoder = load_checkpoint(tmp_path)
    tokens = torch.randint(0, 256, (2, 48))
    with torch.no_grad():
        expected = theirs(tokens).logits
        assert torch.allclose(decoder.logits(tokens), expected, atol=2e-5)
        assert torch.allclose(rotated(decoder).logits(tokens), expected, atol=2e-4)

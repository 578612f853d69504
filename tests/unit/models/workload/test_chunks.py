"""Chunks of a prompt, lowered one after the other, are the prompt."""

import pytest

from codesign.models.workload import load_model, lower


@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b", "gpt-3-175b"])
@pytest.mark.parametrize("chunk", [1, 64, 100])
def test_the_products_of_the_chunks_are_those_of_the_prompt(name, chunk):
    model, prompt = load_model(name), 200
    whole = lower(model, "prefill", prompt, 1, logits="all")
    parts = [
        lower(model, "prefill", min(chunk, prompt - start), 1, logits="all", past_tokens=start)
        for start in range(0, prompt, chunk)
    ]
    for i, operator in enumerate(whole.names):
        macs = sum(float(part.mac_per_request[i]) for part in parts)
        assert macs == pytest.approx(float(whole.mac_per_request[i])), operator


def test_a_window_reaches_back_over_the_chunks():
    model = load_model("llama-3-8b").model_copy(update={"sliding_window": 50})
    table = lower(model, "prefill", 10, 1, past_tokens=100)
    assert table.n[table.names.index("attention_qk")] == 50


def test_a_chunk_reads_the_keys_of_the_earlier_ones():
    model = load_model("llama-3-8b")
    table = lower(model, "prefill", 10, 1, past_tokens=90)
    keys = model.num_key_value_heads * model.head_dim
    assert table.kv_read_elements_per_request[table.names.index("attention_qk")] == 100 * keys


def test_a_chunk_expands_the_latents_of_the_earlier_ones():
    table = lower(load_model("deepseek-v3"), "prefill", 10, 1, past_tokens=90)
    assert table.m_per_request[table.names.index("key_value_projection")] == 100

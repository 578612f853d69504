"""Sparse latent attention: work of the indexer and what it saves, by hand."""

import pytest

from codesign.base.errors import InputError
from codesign.base.schema import Document, parse_record
from codesign.models.workload import LanguageModel, load_model, lower
from codesign.models.workload.storage import state_bytes_per_token

DENSE, SPARSE = load_model("deepseek-v3"), load_model("deepseek-v3.2")
TOP = 2048


def column(table, operator, name):
    position = table.names.index(operator)
    return float(getattr(table, name)[position])


def changed(**changes):
    values = SPARSE.model_dump(mode="json", exclude={"parameters"}) | changes
    return parse_record(Document(values, "model.yaml", {}), LanguageModel, values)


def test_a_step_scores_all_tokens_and_attends_to_the_chosen():
    table = lower(SPARSE, "decode", 1, 1, context=32768)
    assert column(table, "index_scores", "mac_per_request") == 64 * 128 * 32768
    assert column(table, "index_scores", "state_read_bytes_per_request") == (128 + 4) * 32768
    assert column(table, "index_norm", "state_written_bytes_per_request") == 128 + 4
    assert column(table, "attention_qk", "mac_per_request") == 128 * (512 + 64) * TOP
    assert column(table, "attention_pv", "mac_per_request") == 128 * 512 * TOP
    assert column(table, "attention_qk", "kv_read_elements_per_request") == (512 + 64) * TOP
    assert column(table, "index_selection", "score_read_elements_per_request") == 32768


def test_a_long_prompt_is_absorbed_and_every_token_chooses():
    tokens = 8192
    table = lower(SPARSE, "prefill", tokens, 1)
    attended = TOP * (TOP + 1) / 2 + (tokens - TOP) * TOP
    assert column(table, "attention_qk", "mac_per_request") == 128 * (512 + 64) * attended
    scored = 64 * 128 * tokens * (tokens + 1) / 2
    assert column(table, "index_scores", "mac_per_request") == scored
    assert "key_value_projection" not in table.names


def test_a_prompt_within_the_choice_is_attended_to_whole():
    sparse, dense = (lower(model, "prefill", TOP, 1) for model in (SPARSE, DENSE))
    for operator in ("attention_qk", "attention_pv", "key_value_projection"):
        assert column(sparse, operator, "mac_per_request") == column(
            dense, operator, "mac_per_request"
        )
    assert "index_scores" not in sparse.names
    # A later chunk of the same prompt sees more.
    later = lower(SPARSE, "prefill", TOP, 1, past_tokens=1)
    assert "index_scores" in later.names


def test_a_decode_of_few_tokens_is_that_of_dense_attention_and_the_indexer():
    sparse, dense = (lower(model, "decode", 100, 10) for model in (SPARSE, DENSE))
    own = [not name.startswith("index_") for name in sparse.names]
    kept = [name for name, is_kept in zip(sparse.names, own, strict=True) if is_kept]
    assert tuple(kept) == dense.names
    assert (sparse.mac_per_request[own] == dense.mac_per_request).all()


def test_layers_that_share_a_choice_have_no_indexer():
    types = ["full"] * 11 + ["shared"] * 50
    model = changed(indexer_types=types)
    assert state_bytes_per_token(model) == 11 * 132
    table = lower(model, "decode", 1, 1, context=32768)
    assert column(table, "index_scores", "count") == 11
    assert column(table, "attention_qk", "count") == 61


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"index_topk": None}, "index_topk: required for sparse attention"),
        ({"q_lora_rank": None}, "index_topk: expected MLA whose queries have a latent"),
        ({"indexer_types": ["full"]}, "indexer_types: expected one kind per layer .61., got 1"),
        ({"indexer_types": ["shared"] * 61}, "indexer_types: expected full in the first"),
        ({"index_head_dim": 32}, "index_head_dim: expected at least the 64 rotated .* got 32"),
    ],
)
def test_keys_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        changed(**changes)

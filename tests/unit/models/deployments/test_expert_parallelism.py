"""What a device of a group has of the experts, against DeepSeek-V3 counted by hand."""

import numpy as np
import pytest

from codesign.models.deployments import Parallelism, model_part
from codesign.models.deployments.expert_parallelism import exchange_steps, spread_experts
from codesign.models.workload import Request, load_model
from codesign.models.workload.expert_routing import partners

WIDTH = 7168
EXPERT_WIDTH = 2048
LAYERS = 58
EXPERTS = 256
CHOSEN = 8
OF_ONE = 3 * WIDTH * EXPERT_WIDTH
"""Elements of one expert of DeepSeek-V3: gate, up and down projections."""


@pytest.fixture(scope="module")
def request_():
    return Request(model="deepseek-v3", phase="decode", trace="osworld")


def test_a_device_holds_its_part_of_the_experts_and_all_else(request_):
    whole = float(request_.weight_elements)
    experts = LAYERS * EXPERTS * OF_ONE
    for groups in (2, 32, 256):
        part = model_part(request_, Parallelism(expert=groups))
        assert part.weight_elements == pytest.approx(whole - experts + experts / groups)
        assert part.kv_elements_per_request == request_.kv_elements_per_request


def test_a_device_reads_the_experts_that_tokens_of_all_groups_ask_for(request_):
    """Ten requests in each of 32 groups: 320 tokens, of which each asks for 8 of 256 experts."""
    table = model_part(request_, Parallelism(expert=32)).table
    i = table.names.index("expert_down_projection")
    requests = np.array([[10.0]])
    touched = 8 * (1 - (1 - CHOSEN / EXPERTS) ** 320)
    assert table.weights_read(requests)[0, i] == pytest.approx(touched * WIDTH * EXPERT_WIDTH)
    # 320 x 8 pairs of token and expert over 32 devices, among the experts that are touched.
    assert table.rows_per_product(requests)[0, i] == pytest.approx(80 / touched)
    assert 10 * table.mac_per_request[i] == 80 * WIDTH * EXPERT_WIDTH


def test_an_expert_of_its_own_is_read_only_when_a_token_asks_for_it(request_):
    table = model_part(request_, Parallelism(expert=256)).table
    i = table.names.index("expert_down_projection")
    read = table.weights_read(np.array([[1.0]]))[0, i] / (WIDTH * EXPERT_WIDTH)
    assert read == pytest.approx(1 - (1 - CHOSEN / EXPERTS) ** 256)


def test_of_unequal_groups_the_fullest_sets_the_pace(request_):
    """256 experts in 24 groups: ten have 11, the others 10."""
    model, table = request_.language_model, request_.operators()
    part = spread_experts(table, model, 24)
    i = table.names.index("expert_gate_up_projection")
    assert part.n_experts[i] == 11
    busier = 11 * 24 / 256
    for name in ("mac_per_request", "input_elements_per_request", "output_elements_per_request"):
        assert getattr(part, name)[i] == pytest.approx(busier * getattr(table, name)[i]), name
    k = table.names.index("expert_combination")
    assert part.vector_ops_per_request[k] == table.vector_ops_per_request[k]


def test_a_dense_model_has_nothing_to_spread():
    model = load_model("llama-3.3-70b")
    table = Request(model="llama-3.3-70b", phase="decode", trace="osworld").operators()
    assert spread_experts(table, model, 8) is table


def test_a_token_goes_once_to_each_other_group_that_has_an_expert_of_it():
    model, one = load_model("deepseek-v3"), np.ones(1)
    steps = {step.collective: step for step in exchange_steps(model, 10 * one, 32 * one, 4 * one)}
    rng = np.random.default_rng(0)
    draws = np.array([rng.permutation(EXPERTS)[:CHOSEN] // 8 for _ in range(20_000)])
    reached = np.mean([len(set(draw) - {0}) for draw in draws.tolist()])
    assert float(partners(32, EXPERTS, CHOSEN)) == pytest.approx(reached, rel=0.01)
    assert steps["dispatch"].elements[0] == pytest.approx(10 * reached * WIDTH / 4, rel=0.01)
    assert steps["combine"].elements[0] == steps["dispatch"].elements[0]


def test_attention_apart_from_experts_exchanges_nothing():
    request = Request(model="deepseek-v3", phase="decode", trace="osworld", layers="attention")
    messages = model_part(request, Parallelism(1, 1, 8)).messages
    assert messages.n_messages == 0
    experts = Request(model="deepseek-v3", phase="decode", trace="osworld", layers="ffn")
    assert model_part(experts, Parallelism(1, 1, 8)).messages.n_messages == 116


def test_only_groups_exchange_tokens_and_only_their_devices_gather_them(request_):
    alone = model_part(request_, Parallelism(1, 1, 8)).messages
    assert alone.exchange_count.tolist() == [58, 58]
    assert alone.n_messages == 116  # one device in a group has nothing to add up
    several = model_part(request_, Parallelism(4, 1, 8)).messages
    # Embedding, 61 attentions and 3 dense layers add up; logits and 58 times 3 are gathered.
    assert several.all_reduce_count.tolist() == [1, 61, 3]
    assert several.all_gather_count.tolist() == [1, 58, 58, 58]
    assert several.exchange_elements[0] == pytest.approx(alone.exchange_elements[0] / 4)


def test_experts_of_another_width_are_sent_tokens_of_that_width():
    model, one = load_model("deepseek-v3"), np.ones(1)
    latent = model.model_copy(update={"moe_latent_size": model.hidden_size // 2})
    sent, halved = (exchange_steps(item, 10 * one, 8 * one, one) for item in (model, latent))
    assert [2 * step.elements for step in halved] == [step.elements for step in sent]

"""Share of one of several devices in a model and in every operator.

Tensor parallelism cuts operators as :mod:`codesign.models.workload.operator_rules` says. A pipeline
gives each stage a part of the layers; while one stage works on some requests, the others work on
others, so as many groups of requests are on their way as there are stages. Experts are spread over
groups of devices as :mod:`codesign.models.deployments.expert_parallelism` says.

Limiting assumptions: the device with the largest part sets the pace. Layers of every kind are
spread evenly over the stages, the largest part of them counts, and the stage with the LM head, the
last and slowest one, stands for all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codesign.base.columns import ArrayPair, BoolArray
from codesign.base.records import frozen
from codesign.models.deployments.expert_parallelism import exchange_steps, spread_experts
from codesign.models.deployments.messages import Messages
from codesign.models.deployments.parallelism import Parallelism
from codesign.models.workload.dimension_parts import largest_parts
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.operator_rules import Axis, Collective
from codesign.models.workload.operators import OperatorTable
from codesign.models.workload.request import Request
from codesign.models.workload.storage import stored_kv_elements, stored_state_bytes


@frozen
class ModelPart:
    """Share of one device in a model.

    Attributes:
        table: Operators of one pass of one stage, as far as this device does them.
        weight_elements: Elements of weights that it holds.
        kv_elements_per_request: Elements of the KV cache of one request, of those that a stage
            works on, at their end; the requests of all stages are held at once.
        state_bytes_per_request: Bytes of recurrent state, likewise.
        messages: What the devices exchange in a pass of one stage.
    """

    parallelism: Parallelism
    table: OperatorTable
    weight_elements: float
    kv_elements_per_request: float
    state_bytes_per_request: float
    messages: Messages

    @property
    def n_stages(self) -> int:
        """Stages of the pipeline."""
        return self.parallelism.pipeline

    @property
    def n_groups(self) -> int:
        """Groups of devices of a stage that serve requests of their own."""
        return self.parallelism.expert

    @property
    def n_batches(self) -> int:
        """Batches on their way: one in each group of each stage."""
        return self.n_stages * self.n_groups

    @property
    def n_devices(self) -> int:
        """Devices that serve the model together."""
        return self.parallelism.n_devices

    def excess(self, model: LanguageModel) -> float:
        """Excess of devices over the heads, layers or experts that they divide; relative."""
        heads = model.num_attention_heads
        layers = model.num_hidden_layers
        experts = model.moe_dims.n_routed_experts if model.is_mixture else 1
        parallelism = self.parallelism
        most = max(parallelism.tensor / heads, parallelism.pipeline / layers)
        return max(most, parallelism.expert / experts) - 1.0


def model_part(request: Request, parallelism: Parallelism) -> ModelPart:
    """Share of one device in a request's model."""
    table = request.operators()
    model = request.language_model
    messages = _messages(table, model, parallelism)
    if parallelism.n_devices == 1:
        return ModelPart(
            parallelism,
            table,
            float(request.weight_elements),
            float(request.kv_elements_per_request),
            float(request.state_bytes_per_request),
            messages,
        )
    cut = cut_operators(table, model, parallelism.tensor)
    cut = spread_experts(cut, model, parallelism.expert)
    held = _layer_share(model, parallelism.pipeline) * parallelism.pipeline
    stored = cut.stored_weight_elements * cut.count
    groups = np.array(cut.groups)
    ends = [float(stored[groups == end].sum()) for end in ("embedding", "lm_head")]
    in_layers = float(stored[cut.is_in_layers].sum()) * _layer_share(model, parallelism.pipeline)
    return ModelPart(
        parallelism,
        _stage(cut, model, parallelism.pipeline),
        (in_layers + (max(ends) if parallelism.pipeline > 1 else sum(ends))),
        float(stored_kv_elements(cut, request.total_tokens).sum()) * held,
        float(stored_state_bytes(cut, request.total_tokens).sum()) * held,
        messages,
    )


def cut_operators(table: OperatorTable, model: LanguageModel, n_ranks: int) -> OperatorTable:
    """The operators as the one of ``n_ranks`` devices does them that has the largest part."""
    if n_ranks == 1:
        return table
    ranks = np.array(float(n_ranks))
    rules = table.rules
    parts = largest_parts(model, ranks)
    part = np.array([float(parts[rule.dimension]) for rule in rules])

    def is_cut(*axes: Axis) -> BoolArray:
        return np.array([rule.axis in axes for rule in rules], np.bool_)

    is_attention = table.is_attention
    # Keys and values, or states: a device has whole heads of them.
    queries = np.array([rule.dimension == "query_heads" for rule in rules])
    own = np.where(queries | is_cut("columns"), float(parts["kv_heads"]), part)
    own = np.where(is_cut("replicated"), 1.0, own)
    # One product per head that is cut; of heads that share keys, rows instead.
    per_head = table.products_per_request == model.num_attention_heads
    products = np.where(per_head, part, own)
    columns = is_cut("columns")
    rows = is_cut("rows")
    heads = is_cut("heads")
    narrower = np.where(columns | heads, part, 1.0)
    has_matrices = table.n_experts == table.experts_per_token
    matrices = np.where(heads & has_matrices & (table.n_experts > 1), part, 1.0)
    # Of a matrix for each head, a device has fewer; of one weight for each, a part.
    divides = np.array([rule.divides_weights for rule in rules])
    stored_weights = np.where(divides, part, 1.0)
    stored = np.array([float(parts[rule.stored]) for rule in rules])
    written = table.kv_written_elements_per_request
    outputs = table.output_elements_per_request
    outputs = np.where(
        columns & (table.k > 0), (outputs + written) * part - written * own, outputs * narrower
    )
    in_rows = np.where(rows, part, 1.0)
    factors = {
        "m_per_request": np.where(heads & is_attention, part / products, 1.0),
        "k": in_rows,
        "n": np.where(columns, part, 1.0),
        "products_per_request": np.where(heads, products, 1.0),
        "n_experts": matrices,
        "experts_per_token": matrices,
        "weight_elements": stored_weights,
        "lookup_elements_per_request": in_rows,
        "input_elements_per_request": np.where(rows | heads, part, 1.0),
        "stored_weight_elements": stored_weights,
        **dict.fromkeys(_NARROWER, narrower),
        **dict.fromkeys(_BY_KEYS, own),
        **dict.fromkeys(_STORED, stored),
    }
    cut = table.scaled(factors)
    return replace(
        cut,
        weight_elements=cut.weight_elements / matrices,
        output_elements_per_request=outputs,
    )


_NARROWER = (
    "score_read_elements_per_request", "score_written_elements_per_request",
    "vector_ops_per_request",
)  # fmt: skip
"""Columns of what has the width of an operator's output."""
_BY_KEYS = (
    "kv_read_elements_per_request", "kv_written_elements_per_request",
    "kv_reused_elements_per_request", "state_read_bytes_per_request",
    "state_written_bytes_per_request",
)  # fmt: skip
"""Columns of what belongs to heads of keys and values, or to states."""
_STORED = ("stored_kv_elements_per_token", "stored_bytes_per_token", "stored_bytes_per_request")


def _layer_share(model: LanguageModel, n_stages: int) -> float:
    """The largest part of the layers that a stage has."""
    return float(np.ceil(model.num_hidden_layers / n_stages) / model.num_hidden_layers)


def _stage(table: OperatorTable, model: LanguageModel, n_stages: int) -> OperatorTable:
    """The operators of the last stage of a pipeline."""
    if n_stages == 1:
        return table
    table = table.take(np.flatnonzero([group != "embedding" for group in table.groups]))
    share = np.where(table.is_in_layers, _layer_share(model, n_stages), 1.0)
    return table.scaled({"count": share})


def _messages(table: OperatorTable, model: LanguageModel, parallelism: Parallelism) -> Messages:
    """Collectives of the devices of one stage, and what goes to the next stage."""
    layers = _layer_share(model, parallelism.pipeline)
    has_groups = parallelism.expert > 1

    def outputs_of(collective: Collective) -> ArrayPair:
        chosen = [
            i
            for i, rule in enumerate(table.rules)
            if parallelism.tensor > 1
            and rule.collective == collective
            and not (parallelism.pipeline > 1 and table.groups[i] == "embedding")
            and not (has_groups and rule.kernel == "experts")
        ]
        outputs = table.output_elements_per_request + table.kv_written_elements_per_request
        return outputs[chosen], (table.count * np.where(table.is_in_layers, layers, 1.0))[chosen]

    reduced, reduced_count = outputs_of("all_reduce")
    gathered, gathered_count = outputs_of("all_gather")
    exchanged = np.empty(0)
    n_exchanges = 0.0
    if has_groups and table.is_mixture:  # which attention apart from experts is not
        steps = exchange_steps(
            model,
            np.array(table.tokens_per_request),
            np.array(float(parallelism.expert)),
            np.array(float(parallelism.tensor)),
        )
        n_exchanges = model.n_moe_layers * layers
        exchanged = np.array([item.elements for item in steps if item.is_between_groups])
        within = [step.elements for step in steps if not step.is_between_groups]
        if parallelism.tensor > 1:
            gathered = np.concatenate([gathered, within])
            gathered_count = np.concatenate([gathered_count, [n_exchanges] * len(within)])
    width = table.tokens_per_request * model.hidden_size if parallelism.pipeline > 1 else 0.0
    return Messages(
        parallelism,
        reduced,
        reduced_count,
        gathered,
        gathered_count,
        exchanged,
        np.full(len(exchanged), n_exchanges),
        sent_elements=float(width),
    )

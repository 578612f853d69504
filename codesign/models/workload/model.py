"""A language model as its dimensions.

Keys are those of Hugging Face's ``config.json``, verbatim where one exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from codesign.base.columns import IntegerPair, IntegerTuple, StringDict, StringTuple
from codesign.base.errors import InputError, KeyedValueError
from codesign.base.plugins import load
from codesign.base.records import drop_none
from codesign.base.schema import (
    Document,
    Natural,
    Positive,
    Record,
    checked,
    one_of,
    parse_record,
    unstored_at,
)
from codesign.models.workload.layer_dims import (
    IndexDims,
    LatentDims,
    LinearDims,
    LinearKind,
    MixtureDims,
    StateFormat,
)
from codesign.models.workload.layer_pass import LayerPass
from codesign.models.workload.operators import Operators

LayerType = Literal["full_attention", "sliding_attention", "linear_attention", "no_attention"]
IndexerType = Literal["full", "shared"]
MlpType = Literal["dense", "sparse", "none"]
HeadKey = Literal[
    "num_attention_heads", "num_key_value_heads", "head_dim", "value_head_dim"
]  # fmt: skip
"""Numbers of softmax attention; all but the last may differ from layer to layer, by a key that ends
in ``_by_layer``."""

MOST_LAYERS = 10_000
"""More layers than any model has; lists of them are made."""
_LATENT_KEYS = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
INDEX_KEYS = ("index_n_heads", "index_head_dim", "index_topk")
"""Keys that a model with sparse latent attention has, all of them."""
_MIXTURE_KEYS = ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")
_MIXTURE_ONLY = (
    "n_shared_experts",
    "shared_expert_intermediate_size",
    "first_k_dense_replace",
    "decoder_sparse_step",
    "mlp_only_layers",
    "has_router_bias",
    "moe_latent_size",
)
LINEAR_KEYS = (
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
)
"""Keys that a model with linear attention has, all of them."""
SOFTMAX_LAYERS: tuple[LayerType, LayerType] = ("full_attention", "sliding_attention")
"""Kinds of layers that keep keys and values."""
_ROUNDING = 1e-9
"""Error of a share times what it is a share of."""


class PublishedCount(Record):
    """A parameter count as somebody else published it.

    Attributes:
        count: The published number of parameters.
        counted: Parts of the model that the number includes.
        source: Document in which the number was read.
        rounded_to: The published number's last digit counts this many; 1 if it is exact.
    """

    count: Annotated[int, Field(ge=1, strict=True)]
    counted: str
    source: str
    rounded_to: Annotated[int, Field(ge=1, strict=True)] = 1


class Block(Record):
    """A part of a model with operators of its own, besides those that the model's keys imply.

    It is registered in the entry-point group ``codesign.blocks``; a model's file lists it under
    ``blocks`` with its ``name`` and its own keys.

    Attributes:
        name: Name under which the block is registered.
    """

    name: str

    def lower(self, model: LanguageModel, layer_pass: LayerPass) -> Operators:
        """The operators of the block in one pass, the same storage in every pass.

        An operator whose name has no row in ``operator_rules.py`` has a ``rule`` of its own. One
        that reads or writes a state has the rule ``STREAMED_STATE``, perhaps divided.
        """
        raise NotImplementedError


def _read_block(value: object) -> Block:
    if isinstance(value, Block):
        return value
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise InputError(f"expected a mapping with 'name', got {value!r}")
    block = load("blocks", value["name"])
    if not (isinstance(block, type) and issubclass(block, Block)):
        raise InputError(f"expected a class derived from Block, got {block!r}")
    return parse_record(Document("", value, {}), block)


UNQUANTIZED_PARTS = ("embedding", "lm_head", "router", "norm")
"""Parts in 16 bits in published checkpoints in AWQ, GPTQ, FP8, NVFP4 and MXFP4: vLLM's
documentation of quantization, and Hugging Face's AutoAWQ, GPTQ, compressed-tensors and fp8."""

_Errors = Iterator[KeyedValueError]
_Optional = Annotated[Positive | None, unstored_at(None)]


class LanguageModel(Record):
    """A decoder-only transformer, or a diffusion model of the same shape.

    Limiting assumption: layers differ in their kind of attention (full, sliding, linear, none), in
    having a dense MLP, experts or neither, in heads and their width and in the width of a dense
    MLP; of widths that differ, operators have the mean. Else layers of one kind are alike.
    """

    name: str
    """Name under which the model is listed."""
    hidden_size: Positive
    """Width of the residual stream."""
    intermediate_size: Positive
    """Width of the dense MLP."""
    num_hidden_layers: Annotated[int, Field(ge=1, le=MOST_LAYERS, strict=True)]
    """Layers."""
    num_attention_heads: Positive
    """Query heads."""
    num_key_value_heads: Positive
    """Heads with keys and values of their own, the most that a layer has; unused with MLA."""
    head_dim: Positive
    """Width of a head, the most that a layer has; unused with MLA."""
    value_head_dim: _Optional = None
    """Width of a head's value without MLA, if it differs from that of a query and a key."""
    vocab_size: Positive
    """Rows of the embedding table."""
    word_embed_proj_dim: Positive | None = None
    """Width of the embedding table if matrices lead from and to it; None: the model's."""
    blocks: Annotated[
        tuple[Annotated[SerializeAsAny[Block], checked(_read_block)], ...], unstored_at(())
    ] = ()
    """Further parts, each registered under its ``name`` and with keys of its own."""
    tie_word_embeddings: bool = False
    """Whether the LM head is the embedding table."""
    hidden_act: Literal["silu", "gelu", "relu", "relu2"] = "silu"
    """Activation of the MLP."""
    is_gated: bool = True
    """Whether the MLP multiplies the activation with a second up projection."""
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    """Normalization; layer norm has a weight and a bias."""
    norms_per_layer: Literal[1, 2, 4] = 2
    """Norms of a layer with attention and an MLP: 1 if both read the same one, 4 if their outputs
    are normalized too."""
    position: Literal["rotary", "learned", "none"] = "rotary"
    """Rotary embedding of queries and keys, a learned table added to the input, or neither."""
    max_position_embeddings: Positive | None = None
    """Rows of the learned position table; no limit on the tokens of a request."""
    attention_bias: bool = False
    """Biases of the query, key and value projections."""
    attention_output_bias: bool = False
    """Bias of the attention's output projection."""
    mlp_bias: bool = False
    """Biases of the MLP's projections."""
    qk_norm: bool = False
    """RMS norm of each head's queries and keys."""
    has_attention_sinks: bool = False
    """Whether every query head has a learned score of its own in the softmax."""
    attn_output_gate: bool = False
    """Whether a sigmoid of a second query projection scales the output of the attention."""
    partial_rotary_factor: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Part of each head's queries and keys that is rotated."""
    layer_types: tuple[Annotated[LayerType, one_of(*get_args(LayerType))], ...] | None = None
    """Kind of attention of every layer; None: the next two keys decide."""
    mlp_layer_types: tuple[MlpType, ...] | None = None
    """Kind of MLP of every layer: dense, with experts (``sparse``), none; None: other keys
    decide."""
    num_key_value_heads_by_layer: tuple[Natural, ...] | None = None
    """Heads with keys and values of their own, of every layer; None: all layers alike."""
    num_attention_heads_by_layer: Annotated[tuple[Natural, ...] | None, unstored_at(None)] = None
    """Query heads of every layer; None: all layers alike."""
    head_dim_by_layer: Annotated[tuple[Positive, ...] | None, unstored_at(None)] = None
    """Width of a head of every layer; None: all layers alike."""
    intermediate_size_by_layer: tuple[Natural, ...] | None = None
    """Width of the dense MLP of every layer; None: all alike."""
    num_kv_shared_layers: Natural = 0
    """Last layers that attend to the keys and values of an earlier layer."""
    full_attention_interval: Positive | None = None
    """Layers from one with full attention to the next, the others being linear; None: no linear
    ones."""
    sliding_window: Positive | None = None
    """Tokens back to which sliding layers attend, all layers if nothing says which are; None: no
    layer slides."""
    weight_block_size: tuple[Positive, Positive] | None = Field(None, exclude=True)
    """Rows and columns of the published 8-bit weights that share a scale, as
    ``quantization_config`` states them; None: none. Only laws of kernels ask for it."""
    published_format: str | None = Field(None, exclude=True)
    """Number format of the weights as published; None: 16 bits."""
    published_activation_format: str | None = Field(None, exclude=True)
    """Number format of the activations that they multiply; None: 16 bits."""
    unquantized_parts: StringTuple = Field(UNQUANTIZED_PARTS, exclude=True)
    """Parts whose weights stay in 16 bits whatever the format of the others, as
    ``quantization_config`` lists them, or as checkpoints in 8 and 4 bits have it. Only devices read
    it."""
    context_tokens: Positive | None = Field(None, exclude=True)
    """Longest sequence in tokens: ``max_position_embeddings`` of the configuration, extended by
    YaRN where it or the model card states that; None: not stated. Longer ones are refused."""
    is_diffusion: bool = False
    """Whether the model denoises the whole sequence and attends in both directions."""

    n_routed_experts: Positive | None = None
    """Experts among which the router chooses (``num_local_experts``, ``num_experts``)."""
    num_experts_per_tok: Positive | None = None
    """Routed experts that a token uses."""
    moe_intermediate_size: Positive | None = None
    """Width of one expert."""
    n_shared_experts: Natural = 0
    """Experts that every token uses besides."""
    moe_latent_size: _Optional = None
    """Width of what routed experts read and write, to and from which matrices lead; None: the
    model's."""
    shared_expert_intermediate_size: Positive | None = None
    """Width of one shared expert."""
    is_shared_expert_gated: bool = True
    """Whether a sigmoid gate of its own scales the output of that expert (Qwen's)."""
    first_k_dense_replace: Natural = 0
    """First layers that have a dense MLP instead of experts."""
    decoder_sparse_step: Positive = 1
    """Layers from one with experts to the next, the others having a dense MLP."""
    mlp_only_layers: tuple[Natural, ...] = ()
    """Positions from 0 of further layers that have a dense MLP."""
    has_router_bias: bool = False
    """Whether the router adds a bias per expert (``e_score_correction_bias``)."""

    q_lora_rank: Positive | None = None
    """Rank of MLA's queries; None: queries are projected directly."""
    kv_lora_rank: Positive | None = None
    """Rank of MLA's latent, which is what the KV cache holds; None: no MLA."""
    qk_nope_head_dim: Positive | None = None
    """Width of a head's query and key without rotation."""
    qk_rope_head_dim: Natural | None = None
    """Width of the rotated part; one rotated key for all heads."""
    v_head_dim: Positive | None = None
    """Width of a head's value."""

    index_n_heads: _Optional = None
    """Heads of the indexer, which scores the tokens that MLA may attend to (DeepSeek-V3.2)."""
    index_head_dim: _Optional = None
    """Width of an indexer's query, and of the one key that it keeps of each token."""
    index_topk: _Optional = None
    """Tokens with the highest scores, to which MLA attends; None: to all."""
    index_kpool: Annotated[Positive, unstored_at(1)] = 1
    """Tokens that share an indexer's key (GLM-5.3-Flash)."""
    indexer_types: Annotated[tuple[IndexerType, ...] | None, unstored_at(None)] = None
    """Whether each layer has an indexer (``full``) or attends to the tokens that the layer before
    attended to (``shared``); None: each has one."""

    linear_kind: LinearKind = "gated_delta"
    """Kind of linear attention: Gated DeltaNet, lightning attention, Mamba 1 or 2, or a short
    convolution."""
    linear_num_key_heads: Positive | None = None
    """Heads of linear attention with queries and keys of their own."""
    linear_num_value_heads: Positive | None = None
    """Heads of linear attention with values, and a state, of their own."""
    linear_key_head_dim: Positive | None = None
    """Width of a query and a key of linear attention."""
    linear_value_head_dim: Positive | None = None
    """Width of a value of linear attention."""
    linear_conv_kernel_dim: Natural | None = None
    """Taps of the convolution over queries, keys and values of linear attention; 0: none."""
    time_step_rank: Positive | None = None
    """Rank of the projection that gives Mamba 1's rates."""
    mamba_ssm_dtype: StateFormat = "float32"
    """Format of the recurrent state; 32 bits if a configuration does not say, as Transformers'
    code keeps it."""

    parameters: PublishedCount | None = None
    """The published parameter count."""
    sources: StringTuple = ()
    """Documents in which the dimensions were read."""
    notes: StringTuple = ()
    """Assumptions about a configuration file, and keys of it that are not modeled."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: object) -> object:
        """Hugging Face's defaults for what a file may leave out."""
        if not isinstance(data, dict):
            return data
        filled = drop_none(data)
        heads = filled.get("num_attention_heads")
        hidden = filled.get("hidden_size")
        if "num_key_value_heads" not in filled and heads is not None:
            filled["num_key_value_heads"] = heads
        if "head_dim" not in filled and isinstance(heads, int) and isinstance(hidden, int):
            if "kv_lora_rank" in filled:  # MLA has widths of its own
                filled["head_dim"] = max(hidden // max(heads, 1), 1)
            else:
                filled["head_dim"] = hidden / heads if min(hidden, heads) > 0 else 1
        if filled.get("value_head_dim") == filled.get("head_dim"):
            filled.pop("value_head_dim", None)
        return filled

    @field_validator("head_dim", mode="before")
    @classmethod
    def _is_whole(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, float) and {"hidden_size", "num_attention_heads"} <= info.data.keys():
            hidden = info.data["hidden_size"]
            heads = info.data["num_attention_heads"]
            if hidden % heads:
                raise ValueError(
                    "expected where hidden_size is not a multiple of num_attention_heads, got "
                    f"hidden_size {hidden} and {heads} heads"
                )
            return hidden // heads
        return value

    @field_validator("num_key_value_heads")
    @classmethod
    def _divides_heads(cls, value: int, info: ValidationInfo) -> int:
        heads = info.data.get("num_attention_heads", value)
        if heads % value:
            raise ValueError(f"expected a divisor of num_attention_heads ({heads}), got {value}")
        return value

    @field_validator("num_experts_per_tok", "first_k_dense_replace")
    @classmethod
    def _is_within(cls, value: int | None, info: ValidationInfo) -> int | None:
        limits = {
            "num_experts_per_tok": "n_routed_experts",
            "first_k_dense_replace": "num_hidden_layers",
        }
        limit = limits[str(info.field_name)]
        most = info.data.get(limit)
        if value is not None and most is not None and value > most:
            raise ValueError(f"expected at most {limit} ({most}), got {value}")
        return value

    @field_validator(
        "layer_types",
        "mlp_layer_types",
        "num_key_value_heads_by_layer",
        "num_attention_heads_by_layer",
        "head_dim_by_layer",
        "intermediate_size_by_layer",
        "indexer_types",
        mode="before",
    )
    @classmethod
    def _is_by_layer(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, list | tuple):
            return value
        layers = info.data.get("num_hidden_layers", len(value))
        if len(value) != layers:
            raise ValueError(f"expected one kind per layer ({layers}), got {len(value)}")
        return value

    def check_fields(self) -> _Errors:
        if self.position == "learned" and self.max_position_embeddings is None:
            yield KeyedValueError("max_position_embeddings", "required with learned positions")
        yield from self._check_together(
            "multi-head latent attention", _LATENT_KEYS, ("q_lora_rank",)
        )
        yield from self._check_together("sparse attention", INDEX_KEYS, ("indexer_types",))
        yield from self._check_together("a mixture of experts", _MIXTURE_KEYS, _MIXTURE_ONLY)
        rotated = self.partial_rotary_factor * self.head_dim
        if abs(rotated - round(rotated)) > _ROUNDING:
            yield KeyedValueError(
                "partial_rotary_factor",
                "expected a whole number of rotated elements, got "
                f"{self.partial_rotary_factor} of {self.head_dim}",
            )
        yield from self._check_indexer()
        yield from self._check_latent()
        yield from self._check_layers()
        yield from self._check_linear()
        yield from self._check_mixture()

    def _check_together(self, component: str, keys: StringTuple, extra: StringTuple) -> _Errors:
        defaults = type(self).model_fields
        missing = [key for key in keys if getattr(self, key) is None]
        used = [key for key in (*keys, *extra) if getattr(self, key) != defaults[key].default]
        for key in missing if used else ():
            yield KeyedValueError(key, f"required for {component}, since {used[0]} is given")

    def _check_indexer(self) -> _Errors:
        if not self.is_sparse:
            return
        if not self.is_latent or self.q_lora_rank is None:
            yield KeyedValueError("index_topk", "expected MLA whose queries have a latent")
            return
        width = self.index_dims.head_dim
        rotated = self.latent_dims.qk_rope_head_dim
        if None not in (width, rotated) and width < rotated:
            message = f"expected at least the {rotated} rotated (qk_rope_head_dim), got {width}"
            yield KeyedValueError("index_head_dim", message)
        if self.indexer_types and self.indexer_types[0] == "shared":
            message = "expected full in the first layer, which has none before it, got 'shared'"
            yield KeyedValueError("indexer_types", message)

    def _check_latent(self) -> _Errors:
        if not self.is_latent:
            return
        problems = {
            "rotary positions and no qk_norm": self.position != "rotary" or self.qk_norm,
            "neither diffusion nor a window": self.is_diffusion or self.sliding_window,
            "no output gate and no partial rotation": self.attn_output_gate
            or self.partial_rotary_factor != 1,
        }
        broken = [expected for expected, is_broken in problems.items() if is_broken]
        if broken:
            yield KeyedValueError("kv_lora_rank", f"latent attention has {', '.join(broken)}")

    def _check_layers(self) -> _Errors:
        """Refuses keys about the kinds of layers that do not agree."""
        slides = self.n_layers("sliding_attention") > 0
        if slides and self.sliding_window is None:
            yield KeyedValueError("sliding_window", "required, since layers have sliding_attention")
        if self.sliding_window is not None and not slides:
            yield KeyedValueError("sliding_window", "no layer has sliding_attention")
        heads = zip(
            self._layer_values("num_attention_heads"),
            self._layer_values("num_key_value_heads"),
            self.attention_kinds(),
            strict=True,
        )
        for queries, keys, layer_type in heads:
            if layer_type in SOFTMAX_LAYERS and not (queries and keys and queries % keys == 0):
                yield KeyedValueError(
                    "num_key_value_heads_by_layer",
                    "expected a divisor of the query heads in every layer with softmax attention, "
                    f"got {keys} of {queries}",
                )
                break
        if self.is_diffusion and self.layers_by_type != {"full_attention": self.num_hidden_layers}:
            key = "sliding_window" if slides else "layer_types"
            yield KeyedValueError(key, "a diffusion model attends to everything")
        if self.layer_types is None or self.full_attention_interval is None:
            return
        if self.layer_types != self._alternating(self.full_attention_interval):
            yield KeyedValueError(
                "full_attention_interval",
                f"layer_types differs from {self.full_attention_interval}",
            )

    def _check_linear(self) -> _Errors:
        if not self.n_linear_layers:
            if self.linear_num_key_heads is not None:
                yield KeyedValueError("linear_num_key_heads", "no layer has linear_attention")
            yield from self._check_together("linear attention", LINEAR_KEYS, ())
            return
        keys = (*LINEAR_KEYS, "time_step_rank") if self.linear_kind == "mamba" else LINEAR_KEYS
        missing = [key for key in keys if getattr(self, key) is None]
        for key in missing:
            yield KeyedValueError(key, "required, since layers have linear_attention")
        if not missing and self.linear_dims.n_value_heads % self.linear_dims.n_key_heads:
            yield KeyedValueError(
                "linear_num_value_heads",
                "expected a multiple of linear_num_key_heads "
                f"({self.linear_num_key_heads}), got {self.linear_num_value_heads}",
            )

    def _check_mixture(self) -> _Errors:
        if self.n_moe_layers and not self.is_mixture:
            yield KeyedValueError("n_routed_experts", "required, since layers are sparse")
        if self.n_shared_experts and self.shared_expert_intermediate_size:
            yield KeyedValueError(
                "shared_expert_intermediate_size", "n_shared_experts is given too"
            )
        beyond = [layer for layer in self.mlp_only_layers if layer >= self.num_hidden_layers]
        if beyond:
            last = self.num_hidden_layers - 1
            yield KeyedValueError(
                "mlp_only_layers", f"expected positions up to {last}, got {beyond[0]}"
            )

    @property
    def published_formats(self) -> StringDict:
        """Formats of weights and activations by a design's parameter; 16 bits are left out."""
        formats = {
            "weight_format": self.published_format,
            "activation_format": self.published_activation_format,
        }
        return drop_none(formats)

    @property
    def is_latent(self) -> bool:
        """Whether attention is MLA."""
        return self.kv_lora_rank is not None

    @property
    def is_sparse(self) -> bool:
        """Whether an indexer chooses the tokens that MLA attends to."""
        return self.index_topk is not None

    @property
    def n_index_layers(self) -> int:
        """Layers with an indexer."""
        if not self.is_sparse:
            return 0
        indexers = self.indexer_types or ("full",) * self.num_hidden_layers
        return list(zip(indexers, self.attention_kinds(), strict=True)).count(
            ("full", "full_attention")
        )

    @property
    def index_dims(self) -> IndexDims:
        """The indexer's dimensions; only for ``is_sparse`` models."""
        return IndexDims(*self._values(*INDEX_KEYS, "index_kpool"))

    def _values(self, *keys: str) -> list[Any]:
        return [getattr(self, key) for key in keys]

    @property
    def is_mixture(self) -> bool:
        """Whether there are routed experts."""
        return self.n_routed_experts is not None

    @property
    def latent_dims(self) -> LatentDims:
        """MLA's dimensions; only for ``is_latent`` models."""
        return LatentDims(*self._values("q_lora_rank", *_LATENT_KEYS))

    @property
    def moe_dims(self) -> MixtureDims:
        """The mixture's dimensions; only for ``is_mixture`` models."""
        shared = self.shared_expert_intermediate_size
        beside = [
            shared or self.n_shared_experts * (self.moe_intermediate_size or 0),
            shared is not None and self.is_shared_expert_gated,
            self.has_router_bias,
            self.moe_latent_size or self.hidden_size,
        ]
        return MixtureDims(*self._values(*_MIXTURE_KEYS), *beside)

    @property
    def linear_dims(self) -> LinearDims:
        """Linear attention's dimensions; only for models with such layers."""
        values = self._values(*LINEAR_KEYS, "linear_kind", "time_step_rank", "mamba_ssm_dtype")
        dims: list[Any] = [0 if value is None else value for value in values]
        return LinearDims(*dims)

    @property
    def layers_by_type(self) -> dict[LayerType, int]:
        """Layers of each kind of attention that the model has."""
        kinds = self.attention_kinds()
        return {
            layer_type: kinds.count(layer_type)
            for layer_type in get_args(LayerType)
            if layer_type in kinds
        }

    def attention_kinds(self) -> tuple[LayerType, ...]:
        """The kind of attention of each layer."""
        if self.layer_types is not None:
            return self.layer_types
        if self.full_attention_interval is not None:
            return self._alternating(self.full_attention_interval)
        layer_type: LayerType = (
            "full_attention" if self.sliding_window is None else "sliding_attention"
        )
        return (layer_type,) * self.num_hidden_layers

    def _alternating(self, interval: int) -> tuple[LayerType, ...]:
        return tuple(
            "linear_attention" if (layer + 1) % interval else "full_attention"
            for layer in range(self.num_hidden_layers)
        )

    def n_layers(self, layer_type: LayerType) -> int:
        """Layers of one kind of attention."""
        return self.layers_by_type.get(layer_type, 0)

    @property
    def n_linear_layers(self) -> int:
        """Layers with linear attention, which keep a state instead of keys and values."""
        return self.n_layers("linear_attention")

    @property
    def n_attention_layers(self) -> int:
        """Layers with full or sliding attention, which keep keys and values."""
        return sum(self.n_layers(layer_type) for layer_type in SOFTMAX_LAYERS)

    def sum_over_layers(
        self, *factors: HeadKey, kinds: tuple[LayerType, ...], of_own_keys: bool = False
    ) -> int:
        """Sum over layers of the product of numbers of theirs, such as of heads and their width.

        Args:
            factors: The numbers.
            kinds: Kinds of layers that count.
            of_own_keys: Count only layers that compute and keep keys and values, not those that
                share them.
        """
        layers = self.num_hidden_layers - (self.num_kv_shared_layers if of_own_keys else 0)
        rows = zip(self.attention_kinds()[:layers], *map(self._layer_values, factors), strict=False)
        return sum(prod(numbers) for layer_type, *numbers in rows if layer_type in kinds)

    def _layer_values(self, key: HeadKey) -> IntegerTuple:
        if key == "value_head_dim" and self.value_head_dim is None:
            return self._layer_values("head_dim")
        by_layer = getattr(self, f"{key}_by_layer", None)
        return by_layer or (getattr(self, key),) * self.num_hidden_layers

    @property
    def query_width(self) -> int:
        """Width of the queries of a token, in all layers together."""
        return self.sum_over_layers("num_attention_heads", "head_dim", kinds=SOFTMAX_LAYERS)

    @property
    def attention_width(self) -> int:
        """Width of what attention gives of a token, in all layers together."""
        return self.sum_over_layers("num_attention_heads", "value_head_dim", kinds=SOFTMAX_LAYERS)

    def own_key_value_widths(self, *kinds: LayerType) -> IntegerPair:
        """Widths of the keys and of the values of a token that are computed and kept, in all layers
        of some kinds."""

        def width(key: HeadKey) -> int:
            return self.sum_over_layers("num_key_value_heads", key, kinds=kinds, of_own_keys=True)

        return width("head_dim"), width("value_head_dim")

    def _mlp_kinds(self) -> tuple[MlpType, ...]:
        if self.mlp_layer_types is not None:
            return self.mlp_layer_types
        is_dense = [
            not self.is_mixture
            or layer < self.first_k_dense_replace
            or layer in self.mlp_only_layers
            or (layer + 1) % self.decoder_sparse_step > 0
            for layer in range(self.num_hidden_layers)
        ]
        kinds: list[MlpType] = ["sparse", "dense"]
        return tuple(kinds[dense] for dense in is_dense)

    @property
    def n_dense_layers(self) -> int:
        """Layers with a dense MLP."""
        return self._mlp_kinds().count("dense")

    @property
    def n_moe_layers(self) -> int:
        """Layers with experts."""
        return self._mlp_kinds().count("sparse")

    @property
    def n_blocks(self) -> int:
        """Attentions and MLPs of all layers; each adds its output to the residual stream."""
        mixers = self.num_hidden_layers - self.n_layers("no_attention")
        return mixers + self.n_dense_layers + self.n_moe_layers

    @property
    def n_norms(self) -> int:
        """Norms of the residual stream and of what is added to it, the last one included."""
        return self.norms_per_layer * self.n_blocks // 2 + 1

    @property
    def dense_width(self) -> int:
        """Widths of the dense MLPs of all layers together."""
        widths = self.intermediate_size_by_layer
        if widths is None:
            return self.n_dense_layers * self.intermediate_size
        kinds = self._mlp_kinds()
        return sum(
            width for width, layer_type in zip(widths, kinds, strict=True) if layer_type == "dense"
        )

    @property
    def embedding_width(self) -> int:
        """Width of the embedding table and of the LM head."""
        return self.word_embed_proj_dim or self.hidden_size

    @property
    def n_up_matrices(self) -> int:
        """Up projections of an MLP: 2 with a gate."""
        return 2 if self.is_gated else 1

    @property
    def n_norm_vectors(self) -> int:
        """Vectors of one norm: a weight, and a bias in layer norm."""
        return 1 if self.norm == "rmsnorm" else 2


def describe_unlike_attention(
    model: LanguageModel, *, windows_may_differ: bool = False
) -> str | None:
    """Reason why an evaluator that needs layers with equal softmax attention refuses a model.

    Args:
        windows_may_differ: Whether the evaluator tells sliding layers from others.

    Returns:
        One line for an error, or None if it can do all.
    """
    kinds = model.layers_by_type
    allowed = set(SOFTMAX_LAYERS)
    has_unlike = len(kinds) > 1 and not (windows_may_differ and kinds.keys() <= allowed)
    if has_unlike or "linear_attention" in kinds:
        listed = " and ".join(f"{count} {layer_type}" for layer_type, count in kinds.items())
        return f"expected a model whose layers all have the same softmax attention, got {listed}"
    if model.is_sparse:
        return (
            "expected a model whose layers attend to all tokens, got one with an indexer "
            "(index_topk), which platform takes"
        )
    keys_by_layer = [f"{key}_by_layer" for key in get_args(HeadKey)]
    if unlike := next(
        (key for key in keys_by_layer if len({*(getattr(model, key, None) or ())}) > 1), None
    ):
        return f"expected a model whose layers have the same heads, got {unlike}"
    if model.value_head_dim is not None:
        return f"expected values as wide as keys, got value_head_dim {model.value_head_dim}"
    if model.blocks:
        return f"expected a model without further blocks, got {model.blocks[0].name}"
    if model.attn_output_gate:
        return "expected a model without a gate on the attention's output, got attn_output_gate"
    return None

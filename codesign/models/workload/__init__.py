"""Workloads: language models, number formats, requests, and their operators."""

from codesign.models.workload.expert_routing import expected_distinct_experts
from codesign.models.workload.lowering import lower
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.model_library import list_models, load_model, summary
from codesign.models.workload.operators import OperatorTable
from codesign.models.workload.precision import (
    FORMATS,
    bits_per_element,
    bits_per_weight,
    multiply_bits,
    weight_groups,
    weight_multiply_bits,
)
from codesign.models.workload.request import Request
from codesign.models.workload.storage import (
    active_parameter_count,
    kv_elements_per_token,
    parameter_count,
    parameters_by_part,
    state_bytes,
)
from codesign.models.workload.traces import list_traces, load_trace

__all__ = [
    "FORMATS",
    "LanguageModel",
    "OperatorTable",
    "Request",
    "active_parameter_count",
    "bits_per_element",
    "bits_per_weight",
    "expected_distinct_experts",
    "kv_elements_per_token",
    "list_models",
    "list_traces",
    "load_model",
    "load_trace",
    "lower",
    "multiply_bits",
    "parameter_count",
    "parameters_by_part",
    "state_bytes",
    "summary",
    "weight_groups",
    "weight_multiply_bits",
]

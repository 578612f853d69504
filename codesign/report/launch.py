"""Command lines of serving engines for the pools of a deployment, untested.

Flags are those of vLLM 0.11 (``vllm serve``), SGLang 0.5 (``launch_server``) and TensorRT-LLM 1.1
(``trtllm-serve``), as their documentation of 2025 states them; no engine was started with them.
"""

from __future__ import annotations

from collections.abc import Callable

from codesign.answers.sizing import DeploymentEntry
from codesign.base.columns import StringList, StringMap
from codesign.evaluators.platform.deployments import Pool
from codesign.evaluators.platform.machine_pools import MEMORY_FRACTION

_CHUNK_TOKENS = 8192
"""Most tokens of a step unless the deployment states them: vLLM's server default."""


def launch_lines(
    engine: str, model: str, formats: StringMap, deployment: DeploymentEntry
) -> dict[str, StringList]:
    """A comment and a command line for each pool, by engine.

    Args:
        engine: Name of an engine, or ``all``.
        model: Name or path of the model, as the engine shall load it.
        formats: Number formats by parameter.
        deployment: Pools of instances.
    """
    names = list(ENGINES) if engine == "all" else [engine]
    return {
        name: [
            line
            for pool in deployment.pools
            for line in (
                f"# {name}, untested: {pool.role}, {pool.instances} of these, each on "
                f"{pool.devices // pool.instances} x {pool.device}",
                "# no engine starts it with options of its own"
                if pool.role in ("attention", "ffn")
                else " ".join(ENGINES[name](model, formats, pool)),
            )
        ]
        for name in names
    }


def _vllm(model: str, formats: StringMap, pool: Pool) -> StringList:
    groups = pool.expert_parallel
    words = ["vllm serve", model, f"--tensor-parallel-size {pool.tensor_parallel}"]
    words += _stated("--pipeline-parallel-size", pool.pipeline_parallel)
    if groups > 1:
        words += [f"--data-parallel-size {groups}", "--enable-expert-parallel"]
    if pool.expert_copies:
        config = f'{{"num_redundant_experts": {pool.expert_copies}}}'
        words += ["--enable-eplb", f"--eplb-config '{config}'"]
    words += ["--enable-dbo"] if pool.overlapped_batches > 1 else []
    words += [
        f"--max-num-seqs {-(-pool.batch_size // groups)}",
        f"--max-num-batched-tokens {pool.chunk_tokens or _CHUNK_TOKENS}",
        f"--gpu-memory-utilization {MEMORY_FRACTION}",
    ]
    if pool.draft:
        config = f'{{"model": "{pool.draft}", "num_speculative_tokens": {pool.draft_tokens}}}'
        words.append(f"--speculative-config '{config}'")
    words += ["--kv-cache-dtype fp8"] if formats["kv_format"].startswith("fp8") else []
    if pool.role != "serve":
        transfer = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
        words.append(f"--kv-transfer-config '{transfer}'")
    return words


def _sglang(model: str, formats: StringMap, pool: Pool) -> StringList:
    groups = pool.expert_parallel
    words = ["python -m sglang.launch_server --model-path", model]
    words += [f"--tp-size {pool.tensor_parallel * groups}"]
    words += _stated("--pp-size", pool.pipeline_parallel)
    if groups > 1:
        words += [f"--dp-size {groups}", "--enable-dp-attention", f"--ep-size {groups}"]
        words.append("--moe-a2a-backend deepep")
    words += _stated("--ep-num-redundant-experts", pool.expert_copies, 0)
    words += ["--enable-two-batch-overlap"] if pool.overlapped_batches > 1 else []
    words += [
        f"--max-running-requests {pool.batch_size}",
        f"--chunked-prefill-size {(pool.chunk_tokens or _CHUNK_TOKENS) * groups}",
        f"--mem-fraction-static {MEMORY_FRACTION}",
    ]
    if pool.draft:
        words += ["--speculative-algorithm STANDALONE --speculative-draft-model-path", pool.draft]
        words.append(f"--speculative-num-draft-tokens {pool.draft_tokens}")
    words += ["--kv-cache-dtype fp8_e4m3"] if formats["kv_format"].startswith("fp8") else []
    words += [f"--disaggregation-mode {pool.role}"] if pool.role != "serve" else []
    return words


def _trtllm(model: str, formats: StringMap, pool: Pool) -> StringList:
    groups = pool.expert_parallel
    words = ["trtllm-serve", model, f"--tp_size {pool.tensor_parallel * groups}"]
    words += _stated("--pp_size", pool.pipeline_parallel)
    words += _stated("--ep_size", groups)
    words += [
        f"--max_batch_size {-(-pool.batch_size // groups)}",
        f"--max_num_tokens {pool.chunk_tokens or _CHUNK_TOKENS}",
        f"--kv_cache_free_gpu_memory_fraction {MEMORY_FRACTION}",
    ]
    settings = ["enable_attention_dp: true"] if groups > 1 else []
    if formats["kv_format"].startswith("fp8"):
        settings.append("kv_cache_config: {dtype: fp8}")
    if pool.draft:
        length = f"max_draft_len: {pool.draft_tokens}, speculative_model_dir: {pool.draft}"
        settings.append(f"speculative_config: {{decoding_type: DraftTarget, {length}}}")
    if pool.role != "serve":
        settings.append("cache_transceiver_config: {backend: DEFAULT}")
    if settings:
        lines = " ".join(f"'{setting}'" for setting in settings)
        words.append(f"--extra_llm_api_options <(printf '%s\\n' {lines})")
    return words


def _stated(name: str, value: int, default: int = 1) -> StringList:
    return [] if value == default else [f"{name} {value}"]


ENGINES: dict[str, Callable[[str, StringMap, Pool], StringList]] = {
    "vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm,
}  # fmt: skip
"""Command line of an instance by engine."""

"""Figures of a forecast: LIFE's Figs. 3 to 9 for any model, variant and machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.base.columns import FloatArray
from codesign.evaluators.forecast.operator_work import CLASSES, OPS
from codesign.evaluators.forecast.performance import ForecastMachine
from codesign.evaluators.forecast.phases import Inference
from codesign.evaluators.forecast.scenarios import (
    chunk_ratios,
    lora_linear_ops,
    padded_attention_ops,
    timeline,
)
from codesign.evaluators.forecast.variants import VARIANTS
from codesign.models.workload.model import LanguageModel
from codesign.report.drawing import COLORS, drawing_style, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TILES = (16, 32, 64, 128)
_RANKS = (16, 32, 64, 128)
_PROMPTS = (256, 1024, 2048, 4096, 8192)
_OPERATOR_VARIANTS = ("bf16-bf16", "bf16-int4", "bf16-int4-kv4", "quarot-w4a4kv4", "bf16-int4-mla")
_GENERATION_VARIANTS = ("bf16-bf16", "bf16-int4", "bf16-int4-kv4")
_SHARES = np.arange(1, 11) / 10.0
_LORA_TOKENS = tuple(2**power for power in range(4, 13))


@dataclass(frozen=True)
class Scene:
    """Subject of the figures.

    Attributes:
        model: As it was published; the figures that compare variants make their own of it.
        inference: The model under the variant that was asked for.
        prompt_tokens: Of one request.
        generated_tokens: After it.
    """

    model: LanguageModel
    inference: Inference
    machine: ForecastMachine
    prompt_tokens: int
    generated_tokens: int

    def under(self, variant: str) -> Inference:
        """The model under a variant of LIFE's Table 3, otherwise the same."""
        inference = self.inference
        return Inference.of(
            self.model,
            VARIANTS[variant],
            inference.profile,
            is_causal=inference.is_causal,
            logits=inference.logits,
            tile=inference.tile,
        )


def ratio_grid(scene: Scene) -> dict[str, Any]:
    """Compute over memory time of the prefill for machines around the given one (LIFE Fig. 4).

    Ten peaks and ten bandwidths, a fifth to twice those of the machine.
    """
    steps = np.arange(1, 11) / 5.0
    peaks = scene.machine.peak_ops_per_s * steps
    bandwidths = scene.machine.bandwidth_bytes_per_s * steps
    machines = replace(
        scene.machine, peak_ops_per_s=peaks[:, None], bandwidth_bytes_per_s=bandwidths
    )
    compute, memory = machines.phase_times(scene.inference.prefill(scene.prompt_tokens))
    return {
        "peak_ops_per_s": peaks.tolist(),
        "bandwidth_bytes_per_s": bandwidths.tolist(),
        "ratio": np.asarray(compute / memory).tolist(),
    }


def save_forecast_figure(name: str, scene: Scene, path: Path) -> Path:
    """Draw one of ``FIGURES``."""
    with drawing_style():
        figure = FIGURES[name](scene)
        return save_figure(figure, path)


def _figure(n_panels: int = 1, height: float = 4.6) -> tuple[Figure, Sequence[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(7.2 if n_panels == 1 else 4.4 * n_panels, height), layout="constrained"
    )
    return figure, figure.subplots(1, n_panels, squeeze=False)[0]


def _operators(scene: Scene) -> Figure:
    """Operations of a prefill by kind of operator, prompt and variant (LIFE Fig. 3)."""
    figure, (axes,) = _figure()
    variants = [name for name in _OPERATOR_VARIANTS if _is_possible(scene, name)]
    width = 0.8 / len(variants)
    for number, name in enumerate(variants):
        place = np.arange(len(_PROMPTS)) + (number - (len(variants) - 1) / 2) * width
        works = [scene.under(name).prefill(prompt) for prompt in _PROMPTS]
        bottom = np.zeros(len(_PROMPTS))
        for color, operator_class in zip(COLORS, CLASSES, strict=True):
            operations = np.array(
                [work.of(*OPS)[np.array(work.classes) == operator_class].sum() for work in works]
            )
            label = operator_class if number == 0 else None
            axes.bar(place, operations / 1e12, 0.9 * width, bottom / 1e12, color=color, label=label)
            bottom += operations
        for x, top in zip(place, bottom / 1e12, strict=True):
            axes.annotate(
                f"({number + 1})", (x, top), xytext=(0, 2), textcoords="offset points",
                ha="center", fontsize=7,
            )  # fmt: skip
    axes.set_xticks(range(len(_PROMPTS)), [f"{prompt:,}" for prompt in _PROMPTS])
    axes.set(xlabel="Prompt (tokens)", ylabel="Operations of the prefill (10¹²)")
    axes.set_ylim(top=1.05 * axes.get_ylim()[1])  # the numbers above the bars stay inside
    axes.legend(fontsize=8, loc="upper left")
    listed = ", ".join(f"({i + 1}) {name}" for i, name in enumerate(variants))
    figure.suptitle(f"{scene.model.name}: {listed}", fontsize=9, wrap=True)
    return figure


def _is_possible(scene: Scene, variant: str) -> bool:
    # What has MLA of its own, or cannot have it, is not shown converted.
    is_latent, attention = scene.model.is_latent, VARIANTS[variant].attention
    can_have = scene.model.position == "rotary" and not scene.model.qk_norm
    return attention == "native" or (not is_latent and can_have and not scene.model.sliding_window)


def _ratio(scene: Scene) -> Figure:
    grid, gigabyte = ratio_grid(scene), scene.inference.rules.gigabyte
    bandwidths = [f"{value / gigabyte:,.4g}" for value in grid["bandwidth_bytes_per_s"]]
    return _heat_map(
        scene,
        np.array(grid["ratio"]),
        (bandwidths, f"Bandwidth ({scene.inference.rules.gigabyte_name}/s)"),
        ([f"{value / 1e12:,.4g}" for value in grid["peak_ops_per_s"]], "Peak (10¹² op/s)"),
    )


def _efficiency(scene: Scene) -> Figure:
    """Compute over memory time of one machine, by the shares that software reaches (Fig. 5)."""
    machines = ForecastMachine(
        scene.machine.peak_ops_per_s * _SHARES[:, None],
        scene.machine.bandwidth_bytes_per_s * _SHARES,
        scene.machine.dispatch_latency_s,
    )
    compute, memory = machines.phase_times(scene.inference.prefill(scene.prompt_tokens))
    percent = [f"{100 * share:.0f}" for share in _SHARES]
    return _heat_map(
        scene,
        np.asarray(compute / memory),
        (percent, "Bandwidth efficiency (%)"),
        (percent, "Compute efficiency (%)"),
    )


def _heat_map(
    scene: Scene, ratio: FloatArray, x: tuple[list[str], str], y: tuple[list[str], str]
) -> Figure:
    """A grid of ratios, compute-bound in one color and memory-bound in the other."""
    figure, (axes,) = _figure(height=5.6)
    axes.grid(visible=False)
    limit = float(np.abs(np.log2(ratio)).max()) or 1.0
    image = axes.imshow(
        np.log2(ratio), cmap="RdBu_r", vmin=-limit, vmax=limit, origin="lower", aspect="auto"
    )
    for (i, j), value in np.ndenumerate(ratio):
        is_dark = abs(np.log2(value)) > 0.6 * limit
        axes.text(
            j, i, f"{value:.2f}", ha="center", va="center", fontsize=7,
            color="white" if is_dark else "black",
        )  # fmt: skip
    axes.set_xticks(range(len(x[0])), x[0], fontsize=9)
    axes.set_yticks(range(len(y[0])), y[0], fontsize=9)
    axes.set(xlabel=x[1], ylabel=y[1])
    bar = figure.colorbar(image, ax=axes, label="Compute over memory time (log₂)")
    bar.outline.set_visible(False)
    figure.suptitle(
        f"{scene.model.name}, prefill of {scene.prompt_tokens:,} tokens: above 1 compute decides",
        fontsize=10,
    )
    return figure


def _chunks(scene: Scene) -> Figure:
    """Chunked prefill over one pass (LIFE Fig. 6)."""
    sizes = [size for size in (64, 128, 256, 512, 1024, 2048, 4096) if size < scene.prompt_tokens]
    sizes = sizes or [max(1, scene.prompt_tokens // 2)]
    rows = chunk_ratios(scene.inference, scene.prompt_tokens, sizes)
    figure, (axes,) = _figure()
    for number, name in enumerate(("ops", "read_bytes", "written_bytes", "dispatches")):
        place = np.arange(len(sizes)) + (number - 1.5) * 0.2
        label = name.replace("_bytes", "").replace("ops", "operations")
        axes.bar(place, [row[name] for row in rows], 0.18, color=COLORS[number], label=label)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    axes.set(xlabel="Chunk (tokens)", ylabel="Over a prefill in one pass")
    axes.legend(fontsize=9)
    figure.suptitle(f"{scene.model.name}, prompt of {scene.prompt_tokens:,} tokens", fontsize=10)
    return figure


def _timeline(scene: Scene) -> Figure:
    """Traffic and time of decode steps over the generation (LIFE Fig. 7)."""
    figure, (left_axes, right) = _figure(2)
    lines = {name: scene.under(name) for name in _GENERATION_VARIANTS}
    lines = {"as asked": scene.inference, **lines}
    for number, (name, inference) in enumerate(lines.items()):
        steps = timeline(
            inference, scene.machine, scene.prompt_tokens, scene.generated_tokens, n_points=200
        )
        style: dict[str, Any] = {
            "color": COLORS[number],
            "linewidth": 2.4 if number == 0 else 1.4,
            "label": name,
        }
        style["linestyle"] = ("-", "--", "-.", ":")[number]
        left_axes.plot(steps.token, steps.moved_bytes / 2**30, **style)
        right.plot(steps.token, steps.time_per_output_token_s * 1e3, **style)
    left_axes.set(xlabel="Generated token", ylabel="Read and written by the step (GiB)")
    right.set(xlabel="Generated token", ylabel="Time per output token (ms)")
    for axes in (left_axes, right):
        axes.set_ylim(bottom=0)
    figure.legend(*left_axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.suptitle(f"{scene.model.name} after {scene.prompt_tokens:,} tokens", fontsize=10)
    return figure


def _tiles(scene: Scene) -> Figure:
    """Attention's products of a decode step with padding, and the share that is used (Fig. 8)."""
    contexts = scene.prompt_tokens + np.arange(1.0, scene.generated_tokens + 1)
    ops = padded_attention_ops(scene.inference, contexts, _TILES)
    figure, (left_axes, right) = _figure(2)
    for number, (tile, values) in enumerate(ops.items()):
        color = "black" if tile == 1 else COLORS[number - 1]
        label = "ideal" if tile == 1 else f"tile {tile}"
        left_axes.plot(contexts, values, color=color, linewidth=1.4, label=label)
        if tile > 1:
            right.plot(contexts, 100 * ops[1] / values, color=color, linewidth=1.2, label=label)
    left_axes.set(
        xlabel="Context (tokens)", ylabel="Operations of a layer's products", yscale="log"
    )
    right.set(xlabel="Context (tokens)", ylabel="Used of what is computed (%)", yscale="log")
    right.yaxis.set_major_formatter("{x:g}")
    right.yaxis.set_minor_formatter("{x:g}")
    figure.legend(*left_axes.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.suptitle(f"{scene.model.name}: padding in decode", fontsize=10)
    return figure


def _lora(scene: Scene) -> Figure:
    """One product of the model's width with an adapter merged inline (LIFE Fig. 9)."""
    width = scene.model.hidden_size
    ops = lora_linear_ops(width, width, _LORA_TOKENS, _RANKS)
    figure, (axes,) = _figure()
    for number, (rank, values) in enumerate(ops.items()):
        place = np.arange(len(_LORA_TOKENS)) + (number - 2) * 0.16
        label = f"rank {rank}" if rank else "no adapter"
        axes.bar(place, values / 1e9, 0.15, color=COLORS[number], label=label)
    axes.set_yscale("log")
    axes.set_xticks(range(len(_LORA_TOKENS)), [f"{tokens:,}" for tokens in _LORA_TOKENS])
    axes.set(xlabel="Prompt (tokens)", ylabel="Operations (10⁹)")
    axes.legend(fontsize=9)
    figure.suptitle(f"A product of {width} × {width} with an adapter", fontsize=10)
    return figure


FIGURES: Mapping[str, Callable[[Scene], Figure]] = {
    "operators": _operators,
    "ratio": _ratio,
    "efficiency": _efficiency,
    "chunks": _chunks,
    "timeline": _timeline,
    "tiles": _tiles,
    "lora": _lora,
}
"""The figures by name: LIFE's Figs. 3 to 9 in this order."""

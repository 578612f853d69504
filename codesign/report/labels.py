"""Names of metrics and designs for people."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from codesign.base.columns import Fields, JsonObject, StringDict, StringList, StringPair, Strings
from codesign.base.metrics import METRICS, Metric
from codesign.base.records import drop_none
from codesign.base.units import format_engineering

if TYPE_CHECKING:
    from codesign.space import DesignSpace


UNIT_OF_SUFFIX = dict(
    row.split()
    for row in """\
tokens_per_s token/s
tokens_per_joule token/J
joules_per_token J/token
joules_per_request J/request
bytes_per_token B/token
bytes_per_s B/s
flop_per_s FLOP/s
requests_per_s 1/s
per_s /s
bytes B
watts W
joules J
flop FLOP
hz Hz
w_per_mm2 W/mm^2
mm2 mm^2
usd USD
mm mm
celsius degC
kgco2e_per_million_tokens kg/Mtoken
kgco2e kg
years year
s s
""".splitlines()
)
"""The unit that the end of a name states; the first end that fits counts."""
_UPPER_CASE = {
    word: word.upper()
    for word in ("tdp", "mac", "sram", "hbf", "rag", "bfcl", "ffn", "usd", "qk", "pv", "qkv", "lm")
}
_UPPER_CASE |= {"kwh": "kWh", "nvme": "NVMe"}
_TITLES = dict(
    row.split(maxsplit=1)
    for row in """\
tokens_per_s_per_user throughput per user
tokens_per_s_per_device throughput per device
tokens_per_joule_tdp tokens per joule of TDP
peak_flop_per_s peak compute
offchip_bandwidth_bytes_per_s off-chip bandwidth
offchip_bytes_per_token off-chip traffic
later_turn_time_to_first_token_s time to first token of later turns
first_turn_time_to_first_token_s time to first token of first turns
n_devices devices
n_machines machines
requests_per_s request rate
prefill_requests_per_s prefill requests
energy_joules_per_request energy per request
handover_bytes handover size
handover_s handover time
handover_exposed_s exposed handover time
accuracy_recovery_low lower end of accuracy recovery
output_tokens_per_s steady throughput
usd_per_million_tokens price
usd_per_million_output_tokens price of output
usd_per_million_asked_tokens price of asked tokens
energy_joules_per_asked_token energy per asked token
usd_per_hour price per hour
kgco2e_per_million_tokens carbon
embodied_kgco2e embodied carbon
""".splitlines()
) | {f"cache{i}_hit_share": f"hit share of outer cache {i}" for i in (1, 2, 3)}
"""Titles where the name without its unit would be unclear."""
_ASKED = "_usd_per_million_asked_tokens"
KEY_METRICS = ("batch_size", "tokens_per_joule_tdp")
"""Shown beside the objectives where an evaluator reports them."""
MAIN_METRICS = (
    "time_to_first_token_s", "time_per_output_token_s", "energy_joules_per_token", "area_mm2",
    "unit_cost_usd", "memory_capacity_bytes", "shoreline_mm", "junction_temperature_celsius",
    "usd_per_million_tokens", "lifetime_years",
)  # fmt: skip
"""Main figures of a design besides the objectives, if the evaluator reports them."""
BETTER = {"minimize": "lower", "maximize": "higher"}
"""The better direction by sense."""
_WITH_PREFIX = ("s", "W", "J", "B", "FLOP", "OP", "Hz")


def metric_of(name: str, metrics: Iterable[Metric] = ()) -> Metric:
    """The metric of that name; one without unit or meaning if nobody declared it."""
    declared = {metric.name: metric for metric in metrics}
    return declared.get(name) or METRICS.get(name) or Metric(name, "minimize", "", "")


def metric_title(metric: Metric) -> str:
    """The name in words without its unit: ``time_to_first_token_s`` is "time to first token"."""
    owner = metric.name.removesuffix(_ASKED)
    if owner != metric.name:  # of a workload of a mix
        return f"{spaced_name(owner)} {_TITLES[_ASKED[1:]]}"
    if metric.name in _TITLES:
        return _TITLES[metric.name]
    name = metric.name
    if metric.unit:
        for suffix in UNIT_OF_SUFFIX:
            name = name.removesuffix(f"_{suffix}") or name
            if name != metric.name:
                # The rest of a rate's unit: "tokens_per_usd" is "tokens", in token/USD.
                rest = name.removesuffix("_per")
                # "tokens_per_s_per_mm2" has no short form: "tokens per s" is something else.
                is_rate_of_rate = rest != name and "_per_" in rest
                name = metric.name if is_rate_of_rate else rest
                break
    return spaced_name(name)


def side_word(metric: Metric, is_more: bool) -> str:
    """The comparative before a metric's title: "more" tokens, a "lower" price."""
    is_count = re.search("^tokens|(sessions|devices|machines|requests)$", metric_title(metric))
    words = "fewer more" if is_count else "lower higher"
    return words.split()[is_more]


def spaced_name(name: str) -> str:
    """A name with spaces, and its abbreviations in capitals."""
    return " ".join(_UPPER_CASE.get(word, word) for word in re.split("[_-]", name))


def listed_words(texts: Strings) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def spoken_codes(text: str) -> str:
    """A text with words in place of codes of metrics and memories.

    >>> spoken_codes("no embodied_kgco2e; hbf_gen1 x2")
    'no embodied carbon; HBF gen1 x2'
    """
    return re.sub(r"[a-z]\w*_\w+", lambda code: metric_title(metric_of(code[0])), text)


def axis_label(metric: Metric) -> str:
    """Title and unit for the axis of a figure: "Throughput (token/s)"."""
    title = metric_title(metric)
    unit = unit_text(metric.unit)
    return title[:1].upper() + title[1:] + (f" ({unit})" if unit else "")


def unit_text(unit: str) -> str:
    """A unit as it is printed.

    >>> unit_text("W/mm^2"), unit_text("degC"), unit_text("1/s")
    ('W/mm²', '°C', 'per s')
    """
    return unit.replace("^2", "²").replace("degC", "°C").replace("1/s", "per s")


def takes_prefix(unit: str) -> bool:
    """Whether a unit is printed with an SI prefix: ``GB/s`` is read at once, ``ktoken/s`` not."""
    return unit.split("/")[0] in _WITH_PREFIX


def format_value(value: float | None, unit: str = "", digits: int = 4) -> str:
    """A number in its unit for people; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    is_long = unit == "s" and abs(value) >= 1  # nobody reads ks
    text = unit_text(unit).replace("year", "years")
    if takes_prefix(unit) and math.isfinite(value) and not is_long:
        return format_engineering(value, text, digits)
    number = f"{value:.{digits}g}"
    if value == 0 or 1e-3 <= abs(value) < 1e9:
        # As many decimals as ``digits`` figures leave, none that say nothing.
        places = 0 if value == 0 else max(0, digits - 1 - math.floor(math.log10(abs(value))))
        number = f"{value:,.{places}f}"
        number = number.rstrip("0").rstrip(".") if "." in number else number
    return f"{number} {text}".rstrip()


def percent(share: float, digits: int = 3) -> str:
    """A share in percent.

    >>> percent(0.1234), percent(0.0004), percent(0.995, 2), percent(1.0, 2)
    ('12.3 %', '< 0.1 %', '99.5 %', '100 %')
    """
    form = ",.0f" if share >= 0.9995 else f".{3 if share >= 0.995 else digits}g"
    return "< 0.1 %" if 0 < share < 0.001 else f"{100 * share:{form}} %"


def is_share(metric: Metric) -> bool:
    """Whether a metric is a share that is printed in percent, such as a utilization."""
    return metric.name.endswith(("utilization", "hit_share", "regret")) and not metric.unit


def format_metric(value: float | None, metric: Metric, digits: int = 4) -> str:
    """A metric's value in its unit, for people; a share in percent."""
    if is_share(metric) and value is not None:
        return "–" if math.isnan(value) else percent(value)
    return format_value(value, metric.unit, digits)


def format_setting(value: Any) -> str:
    """A parameter's value: the tuple (2048, 256) is "2048x256", an absent one a dash.

    >>> format_setting(["python", "program.py"])
    'python program.py'
    """
    if value is None:
        return "–"
    if isinstance(value, tuple | list):
        are_words = any(isinstance(element, str) for element in value)
        return (" " if are_words else "x").join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and float(short := f"{value:g}") == value:
        return short
    return str(value)


def evaluator_words(reading: Fields) -> str:
    """An evaluator for headers and titles: its name, its profile, then the options given.

    Args:
        reading: See :func:`codesign.base.evaluator.reading_of`.

    >>> evaluator_words({"name": "npu", "profile": "plain", "array": "systolic"})
    'npu, profile plain, array systolic'
    >>> evaluator_words({"name": "command", "run": ["python", "sim.py"], "files": ["a/sim.py"]})
    'command sim.py'
    """
    name = reading["name"]
    hidden = {"name"}
    if isinstance(reading.get("run"), list):
        # A command's words, files and metrics are a page of their own: it is called by its file.
        program = [*reading.get("files", ()), *reading["run"]][0]
        name = f"{name} {str(program).rpartition('/')[-1]}"
        hidden |= {"run", "files"}
    words = [
        f"{key.removesuffix('_m').replace('_', ' ')} {format_setting(value)}"
        for key, value in reading.items()
        if key not in hidden
        and not any(isinstance(x, Mapping) for x in (value if isinstance(value, list) else [value]))
    ]
    return ", ".join([name, *words])


def short_names(names: Iterable[str]) -> StringDict:
    """Technologies as people call them: ``hbm4_12h`` is "HBM4" where no other is HBM4."""
    listed = sorted(set(names))
    short = {name: _memory_title(name.split("_")[0]) for name in listed}
    count = Counter(short.values())
    return {
        name: short[name] if count[short[name]] == 1 else _memory_title(name) for name in listed
    }


def memory_words(text: str) -> str:
    """Memory technologies in a text as people call them.

    >>> memory_words("hbm4_12h ×2 + lpddr5x ×4")
    'HBM4, 12-high ×2 + LPDDR5X ×4'
    """
    return re.sub(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", lambda name: _memory_title(name.group()), text)


def _memory_title(name: str) -> str:
    first, *rest = name.split("_")
    units = {"h": ", {}-high", "k": " {} KiB"}
    words = [
        units[word[-1]].format(word[:-1])
        if re.fullmatch(r"\d+[hk]", word)
        else f" {_MEMORY_WORDS.get(word, word.upper())}"
        for word in rest
    ]  # fmt: skip
    return _UPPER_CASE.get(first, first.upper()) + "".join(words)


_MEMORY_WORDS = {
    "bank": "bank", "shipped": "shipped", "28": "28 Gbit/s",
    "32": "32 Gbit/s", "10667": "10,667 MT/s", "14400": "14,400 MT/s",
}  # fmt: skip
"""Words of the names of memories that are not printed in capitals."""


def row_title(row: Fields) -> str:
    """A memory level, a component or a part of an explanation in words."""
    title = str(row.get("title") or row.get("name", row.get("part", "")))
    return " ".join(_UPPER_CASE.get(word, word) for word in title.replace("_", " ").split())


def bank_words(level: Fields) -> str:
    """Banks of a memory level of an explanation: ``hbm4_12h ×2``."""
    return " + ".join(f"{x['technology']} ×{x['count']}" for x in level.get("banks", ()))


def describe_design(design: Fields, technologies: Iterable[str] = ()) -> str:
    """A machine in words, such as "2048x256, VLEN 1024, 3D×3, HBM4×2 + HBF×1, act/ws/matrix".

    The parameters of the NPU get words of their own; any other is shown as ``name=value``.

    Args:
        design: Value by parameter.
        technologies: All those that could stand in the design, so that short names stay
            unambiguous within a table.
    """
    settings = drop_none(design)
    array = settings.pop("pe_array", None)
    lanes = settings.pop("vector_length", None)
    dies = settings.pop("sram_dies", 0)
    layers = settings.pop("sram_3d_layers", 0)
    sram = memory_words(settings.pop("sram_technology", "sram"))
    clock = settings.pop("clock_hz", None)
    names = ("storage_priority", "dataflow", "bandwidth_priority")
    choices = [str(settings.pop(name)) for name in names if name in settings]
    words = [
        "" if array is None else format_setting(array),
        "" if lanes is None else f"VLEN {lanes}",
        f"{sram}×{dies}" if dies > 1 else sram * bool(dies),
        f"3D×{layers}" if layers else "",
        *_tier_words(settings, technologies),
        *_format_words(settings),
        "/".join(_SHORT_PRIORITY.get(choice, choice) for choice in choices),
        " ".join(setting_words("clock_hz", clock)) if clock else "",
        *(f"{name}={format_setting(value)}" for name, value in settings.items()),
    ]
    return ", ".join(filter(None, words))


def varying_names(space: DesignSpace) -> set[str]:
    """Names of the parameters that differ between designs of a space."""
    return {x.name for x in space.parameters if len(x.values) > 1 or x.optional}


def _machines(
    space: DesignSpace, settings: JsonObject
) -> Iterator[tuple[str, DesignSpace, JsonObject, Any]]:
    """Name, space, settings and number of the machines of each pool; removes their settings."""
    for name, pool in space.pools.items():
        machine = {key: settings.pop(pool.full_name(key), None) for key in pool.parameter_names}
        yield name, pool.space, machine, settings.pop(pool.full_name("machines"), None)


def counted(n: int, word: str) -> str:
    """A number with its noun, in the plural unless it is 1.

    Examples:
        >>> counted(1200, "device")
        '1,200 devices'
    """
    return f"{n:,} {word}{'' if n == 1 else 's'}"


_SPOKEN_PARTS: dict[str, Callable[[Any], str]] = {
    "pe_array": lambda value: f"{format_setting(value)} matrix array",
    "vector_length": lambda value: f"{value:,}-lane vector unit",
    "sram_dies": lambda value: value if isinstance(value, str) else counted(value, "SRAM die"),
    "sram_3d_layers": lambda value: counted(value, "stacked SRAM layer"),
}
_SPOKEN_RULES: dict[str, Callable[[Any], str]] = {
    "storage_priority": lambda value: "data spread evenly"
    if value == "equal" else f"{setting_words('storage_priority', value)[1]} nearest",
    "dataflow": lambda value: setting_words("dataflow", value)[1],
    "bandwidth_priority": lambda value: {
        "equal": "bandwidth shared evenly", "shared": "bandwidth shared freely"
    }.get(value, f"most bandwidth to the {setting_words('bandwidth_priority', value)[1]}"),
}  # fmt: skip


def spoken_design(space: DesignSpace, design: Fields) -> str:
    """A design as one says it: "2048x256 matrix array, 1,024-lane vector unit, 1 SRAM die, ...".

    What is the same in the whole space is left out.
    """
    varying = varying_names(space)
    if space.pools:
        rest = dict(design)
        sections = []
        for name, machine_space, machine, count in _machines(space, rest):
            words = spoken_design(machine_space, machine)
            machines = counted(count, "machine") if count else ""
            words = (words and machines and f"{', each' * (count != 1)} with ").join(
                [machines, words]
            )
            sections += [f"{spaced_name(name)}: {words}"] if words else []
        varied = {name: value for name, value in rest.items() if name in varying}
        sections += (f"{name} {words}" for name, words in part_words(space, varied).items())
        return "; ".join(sections)
    settings = {k: v for k, v in design.items() if v is not None and (k in varying or not varying)}

    sram = design.get("sram_technology")
    if sram and settings.keys() & {"sram_technology", "sram_dies"}:
        settings.pop("sram_technology", None)
        settings["sram_dies"] = f"{memory_words(str(sram))}×{design.get('sram_dies', 1)}"

    formats = {value for name, value in settings.items() if name.endswith("_format")}

    def spoken(words: Mapping[str, Callable[[Any], str]]) -> StringList:
        values = ((key, settings.pop(key, None)) for key in words)
        return [words[key](value) for key, value in values if value]

    return ", ".join([
        *spoken(_SPOKEN_PARTS),
        *_tier_words(settings, _technologies(space)),
        *(_format_words(settings) if len(formats) == 1 else ()),
        *spoken(_SPOKEN_RULES),
        *(" ".join(setting_words(name, value)) for name, value in settings.items()),
    ])  # fmt: skip


def spoken_designs(space: DesignSpace, designs: Iterable[Fields]) -> StringList:
    """Each design as one says it; equal designs are worked out once."""
    keys = [tuple(design.items()) for design in designs]
    words = {key: spoken_design(space, dict(key)) for key in dict.fromkeys(keys)}
    return [words[key] for key in keys]


def _technologies(space: DesignSpace) -> set[str]:
    return {
        str(value)
        for parameter in space.parameters
        if parameter.name.endswith("_technology")
        for value in parameter.values
    }


def design_words(space: DesignSpace, designs: Iterable[Fields], between: str = "; ") -> StringList:
    """Each design in words; what is the same in the whole space is left out.

    Args:
        designs: Each by parameter.
        between: What stands between the pools of a system.
    """
    varying = varying_names(space)
    varied = [
        {name: value for name, value in design.items() if name in varying or not varying}
        for design in designs
    ]
    if space.pools:
        return [
            between.join(f"{name} {words}" for name, words in part_words(space, design).items())
            for design in varied
        ]
    return [describe_design(design, _technologies(space)) for design in varied]


def part_words(space: DesignSpace, design: Fields) -> StringDict:
    """Words by name of what a system consists of: its pools, its links, anything else.

    A pool is such as "2× [2048x256, VLEN 1024, ...]"; one of which nothing varies has no words.
    """
    settings = dict(design)
    words = {}
    for name, machine_space, machine_settings, count in _machines(space, settings):
        (machine,) = design_words(machine_space, [machine_settings])
        words[name] = " ".join(filter(None, [count and f"{count}×", machine and f"[{machine}]"]))
    for link in space.links:
        words[link.name] = ", ".join(
            setting_words(name, value)[1]
            for name, *_ in _SETTING_UNITS
            if (value := settings.pop(f"{link.name}_{name}", None)) is not None
        )
    words |= {name: format_setting(value) for name, value in settings.items() if value is not None}
    return {name: text for name, text in words.items() if text}


_SETTING_UNITS = (
    ("clock_hz", "Hz", 1.0),
    ("peak_ops_per_s", "OP/s", 1.0),
    ("bandwidth_bytes_per_s", "B/s", 1.0),
    ("latency_s", "s", 1.0),
    ("energy_joules_per_byte", "J/bit", 1.0 / 8.0),
)


OPERANDS = {"weight": "weights", "activation": "activations", "kv": "KV cache"}
"""Operands of a model in words."""
_SETTING_TITLES = dict(
    row.split(maxsplit=1)
    for row in """\
pe_array matrix array
vector_length vector lanes
sram_dies SRAM dies or banks
n_devices devices
topology memory tiers
sram_3d_layers stacked SRAM layers
kv_format KV cache format
storage_priority nearest data
bandwidth_priority bandwidth priority
""".splitlines()
)
_SETTING_VALUES = {
    "storage_priority": OPERANDS | {"equal": "spread evenly", "written": "what is written"},
    "dataflow": {"ws": "weight-stationary", "os": "output-stationary", "is": "input-stationary"},
    "bandwidth_priority": {"equal": "shared evenly", "matrix": "matrix array",
                           "vector": "vector unit", "shared": "shared freely"},
    "process": {"n7": "N7", "n5": "N5", "n3e": "N3E", "n2": "N2"},
    "topology": {"staged": "in a row", "parallel": "side by side"},
    "score_path": {"on_chip": "on-chip memory", "local": "local buffer"},
}  # fmt: skip


def setting_words(parameter: str, value: Any) -> StringPair:
    """A parameter's name and value in words, such as "handover energy" and "1.3 pJ/bit".

    >>> setting_words("tier1_technology", "hbm4_12h"), setting_words("pe_array", (2048, 256))
    (('tier 1 technology', 'HBM4, 12-high'), ('matrix array', '2048x256'))
    >>> setting_words("clock_hz", 0.7e9)
    ('clock', '700 MHz')
    """
    for name, unit, factor in _SETTING_UNITS:
        if parameter.endswith(name) and isinstance(value, int | float):
            title = parameter[: len(parameter) - len(name)] + name.partition("_")[0]
            return title.replace("_", " "), format_engineering(value * factor, unit, 4)
    suffix = next((name for name in _SETTING_TITLES if parameter.endswith(name)), "")
    title = parameter.removesuffix(suffix) + _SETTING_TITLES.get(suffix, "")
    text = "" if value is None else format_setting(value)
    if parameter.endswith("technology"):
        text = memory_words(text)
    elif parameter.endswith("device"):
        text = text.upper().replace("-", " ")
    else:
        words = next((x for name, x in _SETTING_VALUES.items() if parameter.endswith(name)), {})
        # A mix of formats says its shares: "87.5 % mxfp4+12.5 % mxfp8".
        text = re.sub(r"([\d.]+)\*", lambda x: f"{100 * float(x[1]):g} % ", words.get(text, text))
    return spaced_name(re.sub(r"(?<![a-z])(tier|cache)(?=\d)", r"\1 ", title)), text


def _tier_words(settings: JsonObject, technologies: Iterable[str]) -> StringList:
    """The tiers of a machine, then its outer caches; removes their settings."""
    memories: dict[str, list[tuple[str, Any]]] = {"": [], "outer cache ": []}
    places = {"": ("tier", "stacks"), "outer cache ": ("cache", "units")}
    for noun, (place, counted) in places.items():
        for i in range(1, 10):
            count = settings.pop(f"{place}{i}_{counted}", None)
            if (name := settings.pop(f"{place}{i}_technology", None)) is not None:
                memories[noun].append((str(name), count))
    short = short_names([*technologies, *(name for x in memories.values() for name, _ in x)])
    return [
        noun + " + ".join(f"{short[name]}×{number}" for name, number in listed)
        for noun, listed in memories.items()
        if listed
    ]


def _format_words(settings: JsonObject) -> StringList:
    names = ("weight_format", "activation_format", "kv_format")
    formats = [str(settings.pop(name)) for name in names if name in settings]
    return formats[:1] if len(set(formats)) <= 1 else ["/".join(formats)]


_SHORT_PRIORITY = {"activation": "act", "weight": "wgt", "equal": "eq"}

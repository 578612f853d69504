"""Colors of pages and paper figures: one meaning has one color on both.

The hues are those of Okabe and Ito (2008), which people with impaired color vision can tell apart.
Pages darken a few of them on white, so that lines and letters have contrast, and lighten them on
black.
"""

from __future__ import annotations

PAPER = {
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "black": "#000000",
    "gray": "#9A9A9A",
}
"""Hue by name, as figures print it."""
SERIES = ("blue", "vermilion", "green", "purple", "orange", "sky", "black")
"""In the order in which series without a meaning of their own take them."""

_LIGHT = PAPER | {"orange": "#c07c00", "purple": "#b85f96", "sky": "#2d93cc", "gray": "#7d848b"}
_DARK = {
    "blue": "#56b4e9", "vermilion": "#ff8a3d", "green": "#2cc295", "purple": "#e39cc6",
    "orange": "#e69f00", "sky": "#8fd0f5", "black": "#f2f2f2", "gray": "#868e96",
}  # fmt: skip

BOUNDS = {
    "compute": "blue",
    "off-chip": "vermilion",
    "on-chip port": "green",
    "vector": "purple",
    "memory": "orange",
    "links": "sky",
    "power": "black",
    "none": "gray",
}
"""What sets an operator's time."""
LEVELS = {
    "on_chip": "green", "tier1": "orange", "tier2": "sky", "tier3": "purple",
    "tier4": "vermilion", "tier5": "gray",
}  # fmt: skip
"""Memory levels, from the die outward."""
PARTS = {"array": "blue", "vector": "purple"} | LEVELS
"""Components that draw power, take area or cost money."""
STAGES = {"prefill": "blue", "decode": "green", "hand-over": "vermilion", "exchange": "purple"}
"""What the machines and links of a system do for a request."""
PICKS = {"frugal": "green", "knee": "blue", "fastest": "vermilion"}
"""Recommended designs."""


def paper(roles: dict[str, str]) -> dict[str, str]:
    """Hex colors of figures by role."""
    return {role: PAPER[name] for role, name in roles.items()}


def style_sheet() -> str:
    """The hues as variables of a style sheet, light and dark."""
    light, dark = (
        " ".join(f"--{name}: {color};" for name, color in hues.items()) for hues in (_LIGHT, _DARK)
    )
    return (
        f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) "
        f"{{ :root:not(.printing) {{ {dark} }} }}\n"
    )


def document() -> dict[str, dict[str, str]]:
    """Hue by role, for a page's program."""
    return {"bounds": BOUNDS, "parts": PARTS, "stages": STAGES, "picks": PICKS}

"""Colors of pages and paper figures: one meaning has one color on both.

The hues are those of Okabe and Ito (2008), which people with impaired color vision can tell apart.
A few of them are darker on white, so that lines and letters have contrast, and lighter on black.
"""

from __future__ import annotations

from codesign.base.columns import JsonObject

_HUES = """\
blue      #0072B2 #56b4e9
vermilion #D55E00 #ff8a3d
green     #009E73 #2cc295
purple    #b85f96 #e39cc6
orange    #c07c00 #e69f00
sky       #2d93cc #8fd0f5
black     #000000 #f2f2f2
gray      #7d848b #868e96
paper     #ffffff #15181b
raised    #f4f6f8 #1f2327
ink       #16191c #e8eaec
quiet     #565d64 #a5adb5
rule      #c9ced3 #3a4047
grid      #e6e8ea #2b3036
accent    #00578a #7cc4f4
mark      #fff3cd #4a3c12
dim       #9aa1a8 #868e96
good      #00704f #56d8b0
bad       #a33f00 #ffa36e
"""
_ROWS = [row.split() for row in _HUES.splitlines()]
LIGHT = {name: hue for name, hue, _ in _ROWS}
"""Hue by name on white paper and in the light look of a page."""
DARK = {name: hue for name, _, hue in _ROWS}
"""Hue by name in the dark look of a page."""
SERIES = ("blue", "vermilion", "green", "purple", "orange", "sky", "black")
"""Hues of series without a meaning of their own, in the order in which they are used."""
DASHES = ("", "dash", "dashdot", "dot", "long")
"""Dashes of series, so that prints without color can be read."""

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
"""Hue of the resource that sets an operator's time."""
LEVELS = {
    "on_chip": "green", "tier1": "orange", "tier2": "sky", "tier3": "purple",
    "tier4": "vermilion", "tier5": "gray",
}  # fmt: skip
"""Memory levels, from the die outward."""
PARTS = {"array": "blue", "vector": "purple"} | LEVELS
"""Components that draw power, take area or cost money."""
STAGES = {"prefill": "blue", "decode": "green", "hand-over": "vermilion", "exchange": "purple"}
"""Hue of the work that machines and links of a system do for a request."""
PICKS = {"frugal": "green", "knee": "blue", "recommended": "purple", "fastest": "vermilion"}
"""Recommended designs."""


def series_look(number: int) -> JsonObject:
    """Hue and dash of the line of a series; 35 series have looks of their own."""
    dash = DASHES[(number + number // len(SERIES)) % len(DASHES)]
    return {"hue": SERIES[number % len(SERIES)], "dash": dash}


def style_sheet() -> str:
    """The hues as variables of a style sheet, light and dark."""
    light, dark = (
        " ".join(f"--{name}: {color};" for name, color in hues.items()) for hues in (LIGHT, DARK)
    )
    return (
        f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) "
        f"{{ :root {{ {dark} }} }}\n"
    )

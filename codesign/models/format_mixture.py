"""Mixtures of number formats: some layers of a model in one format, the rest in others.

A mixture is named by what it is, shares of the layers times formats: ``0.75*mxfp4+0.25*mxfp8``. So
a design says by itself what it is, wherever it is read. What the formats are is for those to say
who store or multiply with them; here they are words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from codesign.base.columns import FloatDict
from codesign.base.errors import UnusableValueError, describe_unknown

_TOLERANCE = 1e-9
"""Distance from 1 that shares may have: far less than the digits that are written, more than
rounding."""
_EXPECTED = "expected shares times formats, such as 0.75*mxfp4+0.25*mxfp8"


class FormatShare(NamedTuple):
    """Some of the layers, and their format.

    Attributes:
        share: Of the layers; above 0, and 1 in sum.
        format: Name of a number format.
    """

    share: float
    format: str


def is_mixed(name: str) -> bool:
    """Whether a name is that of a mixture, well formed or not."""
    return "*" in name or "+" in name


def format_shares(name: str, known: Iterable[str] | None = None) -> tuple[FormatShare, ...]:
    """The groups of layers of a mixture; of a plain format, all layers.

    Args:
        name: Of a mixture or a format.
        known: Formats that a mixture may have; None: not checked here. A plain format is never
            checked.

    Raises:
        UnusableValueError: The shares are no numbers above 0 or do not sum to 1, a group has no
            format, one that another group has, or one that is not known.

    Examples:
        >>> format_shares("0.75*mxfp4+0.25*mxfp8")[1]
        FormatShare(share=0.25, format='mxfp8')
        >>> format_shares("mxfp8")
        (FormatShare(share=1.0, format='mxfp8'),)
    """
    if not is_mixed(name):
        return (FormatShare(1.0, name),)
    groups = tuple(_group(words, name) for words in name.split("+"))
    formats = [group.format for group in groups]
    total = math.fsum(group.share for group in groups)
    if abs(total - 1.0) > _TOLERANCE:
        raise _refused(name, f"expected shares that sum to 1, got {total:g}")
    for word in formats:
        if formats.count(word) > 1:
            raise _refused(name, f"expected each format once, got {word!r} twice")
        if known is not None and word not in known:
            raise _refused(name, describe_unknown("number format", word, known))
    return groups


def mixture_name(groups: Iterable[tuple[float, str]]) -> str:
    """The name of a mixture of shares and formats, those of the same format added up.

    Shares are rounded to six digits; the last takes what rounding leaves.

    Examples:
        >>> mixture_name([(1 / 3, "mxfp8"), (2 / 3, "mxfp4")])
        '0.333333*mxfp8+0.666667*mxfp4'
    """
    shares: FloatDict = {}
    for share, word in groups:
        shares[word] = shares.get(word, 0.0) + share
    millionths = {word: round(share * 1e6) for word, share in shares.items()}
    last = list(millionths)[-1]
    millionths[last] += 1_000_000 - sum(millionths.values())
    kept_millionths = {word: count for word, count in millionths.items() if count > 0}
    if len(kept_millionths) == 1:
        return next(iter(kept_millionths))
    return "+".join(f"{count / 1e6:g}*{word}" for word, count in kept_millionths.items())


def mixture_words(name: str) -> str:
    """A mixture as people say it; a plain format as it is.

    Examples:
        >>> mixture_words("0.75*mxfp4+0.25*mxfp8")
        '75 % of layers mxfp4, 25 % mxfp8'
    """
    if not is_mixed(name):
        return name
    first, *others = format_shares(name)
    words = [f"{100 * first.share:g} % of layers {first.format}"]
    return ", ".join(words + [f"{100 * group.share:g} % {group.format}" for group in others])


def _group(words: str, name: str) -> FormatShare:
    share, star, word = words.strip().partition("*")
    if not (star and share.strip() and word.strip()):
        raise _refused(name, f"{_EXPECTED}, got the group {words.strip()!r}")
    try:
        number = float(share)
    except ValueError:
        number = math.nan
    if not 0.0 < number < 1.0:
        raise _refused(name, f"expected a share above 0 and below 1, got {share.strip()!r}")
    return FormatShare(number, word.strip())


def _refused(name: str, problem: str) -> UnusableValueError:
    return UnusableValueError(f"mixture {name!r}: {problem}", name)

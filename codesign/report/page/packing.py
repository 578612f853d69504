"""Texts inside a page, compressed; the browser unpacks them (``DecompressionStream``)."""

from __future__ import annotations

import gzip
from base64 import b64encode


def packed(text: str) -> str:
    """Compressed, in letters that HTML leaves alone; equal texts give equal letters."""
    return b64encode(gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0)).decode("ascii")

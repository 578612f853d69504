"""Pictures of a campaign's page for the README: ``python docs/screenshots.py PAGE FOLDER``.

Part of ``make gallery``. It needs playwright (extra ``dev``) and a Chromium on the machine; without
them it says so and leaves the pictures as they are.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_WIDTH, _HEIGHT = 1200, 760
_PICTURES = {"page-answer": "header", "page-front": "#limits", "page-designs": "#slots"}
"""Part of the page at the top of each file."""


def main(page: Path, folder: Path) -> None:
    """Write a picture of each part of the page into the folder."""
    browser_path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        browser_path = None
    if browser_path is None:
        print("no Chromium or no playwright: pictures of the page are not taken anew")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        view = browser.new_page(
            viewport={"width": _WIDTH, "height": _HEIGHT},
            color_scheme="light",
            reduced_motion="reduce",
        )
        view.goto(page.resolve().as_uri())
        view.wait_for_selector("html[data-ready]")
        for name, part in _PICTURES.items():
            view.evaluate("part => document.querySelector(part).scrollIntoView()", part)
            path = folder / f"{name}.png"
            view.screenshot(path=path)
            print(f"wrote {path}")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

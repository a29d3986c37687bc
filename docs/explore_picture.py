"""The README's picture: the page of ``ssdsim explore`` in Chromium, where acceptance and hits are given.

Run: python docs/explore_picture.py   (from the checkout; needs the test tools and Chromium)
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import ssdsim
from tests.ssdsim.reports.browser import Browser

PICTURE = Path(__file__).parent / "assets" / "explore.png"
STATE = "#b=16&alpha=0.75&hit_c=0.3&hit_r=0.6&measured=1"
WIDTH, HEIGHT = 1200, 926  # down to the foot of the first figures


def taken(page: Path, profile: Path) -> None:
    """The page's first screen at :data:`STATE`."""
    with Browser(profile) as browser:
        browser.screen(WIDTH, HEIGHT)
        browser.send("Page.navigate", url=page.as_uri() + STATE)
        browser.wait_until("document.documentElement?.dataset.followed === 'all'")
        browser.screenshot(PICTURE)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        ssdsim.explore().save(path)
        taken(path, Path(folder) / "profile")

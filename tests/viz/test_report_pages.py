"""Reports in a real browser: no errors, no requests, no sideways scrolling, enough contrast, names everywhere."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eigentree as et

CONTRAST = """
const numbers = text => text.match(/[\\d.]+/g).map(Number);
const over = (front, back) => {
  const share = front.length > 3 ? front[3] : 1;
  return [0, 1, 2].map(k => share * front[k] + (1 - share) * back[k]);
};
const light = colour => {
  const [r, g, b] = colour.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (one, other) => {
  const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
};
const behind = element => {
  // All colours that may stand behind a text: those of elements around it, and of the bars that they draw.
  let found = [];
  for (let at = element; at; at = at.parentElement) {
    const style = getComputedStyle(at);
    const colours = style.backgroundImage.match(/rgba?\\([^)]*\\)/g) || [];
    found.push(...colours.map(numbers).filter(c => c.length < 4 || c[3] > 0));
    const own = numbers(style.backgroundColor);
    if (own.length < 4 || own[3] === 1) { found.push(own); break; }
  }
  return found;
};
const low = [];
let count = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode, element = text.parentElement;
  if (!text.data.trim() || ["TITLE", "DESC", "STYLE"].includes(element.tagName.toUpperCase())) continue;
  const style = getComputedStyle(element);
  let backs = behind(element.closest("svg") ? element.closest("svg").parentElement : element);
  let front = numbers(style.color);
  if (element.closest("svg")) {
    front = numbers(style.fill);
    const box = element.previousElementSibling;
    if (box && box.tagName === "rect" && element.parentElement.tagName === "g") {
      backs = [numbers(getComputedStyle(box).fill)];
    }
  }
  count += 1;
  const worst = Math.min(...backs.map(back => ratio(over(front, back), back)));
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  if (!(worst >= (large ? 3 : 4.5))) low.push([text.data.trim().slice(0, 40), worst, style.color]);
}
return {count, low};
"""
"""The contrast of every text to whatever stands behind it, by the formula of WCAG 2; AA wants 4.5, or 3."""

NAMES = """
const pictures = [...document.querySelectorAll("svg")];
const told = (element, what) => element.querySelector(what)?.textContent.trim();
const nameless = pictures.filter(svg => svg.getAttribute("role") !== "img"
  || !told(svg, ":scope > title") || !told(svg, ":scope > desc"));
const figures = [...document.querySelectorAll("figure")];
const bare = figures.filter(figure => !told(figure, "figcaption"));
const regions = [...document.querySelectorAll("[role=region], nav")].filter(e => !e.getAttribute("aria-label"));
const tables = [...document.querySelectorAll("table")].filter(each => !told(each, "caption"));
return {pictures: pictures.length, figures: figures.length,
        nameless: nameless.length + bare.length + regions.length + tables.length};
"""

HEADINGS = "return [...document.querySelectorAll('h1,h2,h3')].map(h => Number(h.tagName[1]))"

REACHED = """
const shown = e => e.getClientRects().length > 0;
return [...document.querySelectorAll("a[href], summary, [tabindex='0']")].filter(shown)
  .map((e, place) => { e.dataset.place = place; return e.tagName; });
"""

OUTSIDE = """
return [...document.querySelectorAll("svg text")].filter(text => {
  const own = text.getBoundingClientRect(), all = text.closest("svg").getBoundingClientRect();
  return own.width > 0 && (own.left < all.left - 1 || own.right > all.right + 1 || own.top < all.top - 2
    || own.bottom > all.bottom + 2);
}).map(text => text.textContent);
"""
"""Texts of pictures that reach beyond the picture, and are cut off."""

OVERFLOW = """
const wide = [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll, svg, .skip")
  && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + "." + e.className);
return {page: document.documentElement.scrollWidth, width: innerWidth, wide};
"""


def chromium() -> str:
    """Return where Chromium is; the test is skipped where there is none, and fails in CI."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None or shutil.which("chromedriver") is None:
        if os.environ.get("CI"):
            pytest.fail("chromium and chromedriver are missing, and CI must not skip what needs them")
        pytest.skip("chromium or chromedriver is missing: the pages of reports were NOT looked at in a browser")
    return found


def pages() -> dict[str, str]:
    """Return pages of models of several types, small ones that have everything a page can have."""
    random = np.random.default_rng(0)
    kind = random.integers(2, size=150)
    frame = pd.DataFrame(
        {
            "<script>alert('name')</script>": np.where(kind, "a & <b>", random.choice(["x", "y"], size=150)),
            "a column with a very long name that does not end soon": random.choice(list("uvw"), size=150),
            **{f"c{k}": np.where(random.random(150) < 0.8, kind, 1 - kind).astype(str) for k in range(6)},
        }
    )
    frame.iloc[::11, 2] = None
    held = frame[100:].copy()
    held.iloc[0, 3] = "</style><script>alert('unseen')</script>"
    mixture = et.EMJunctionTree(et.zoo.Mixture(3), n_init=1, random_state=0, pseudo_counts=0.1).fit(frame[:100])
    words = ["".join(random.choice(list("abc"), size=6)) for _ in range(30)]
    hmm = et.EMHMM(3, n_init=1, random_state=0).fit(words)
    spectral = et.SpectralJunctionTree(et.zoo.Mixture(2)).fit(frame[:100])
    wide = et.LatentNetwork.random(et.zoo.mixture(columns=110, hidden_states=12, observed_states=2), seed=0)
    return {
        "mixture": et.report(mixture, held, source="held <i>out</i>.csv", date="2026-01-01").html,
        "sequences": et.report(hmm, words[:12], date="2026-01-01").html,
        "spectral": et.report(spectral, held, date="2026-01-01").html,
        "wide": et.report(wide, date="2026-01-01").html,
        "fit": f"<!DOCTYPE html><html lang='en'><title>f</title><h1>f</h1>{mixture.report_._repr_html_()}</html>",
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = chromium()
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = found
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1200,900",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


def emulate(browser: Any, width: int, scheme: str) -> None:
    """Make the window as wide as that, in light or dark."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def test_pages_are_sound_in_a_browser(browser: Any, tmp_path: Path) -> None:
    for name, page in pages().items():
        file = tmp_path / f"{name}.html"
        file.write_text(page)
        browser.get(file.as_uri())
        browser.execute_script("document.querySelectorAll('details').forEach(each => each.open = true)")
        for scheme in ("light", "dark"):
            emulate(browser, 1200, scheme)
            found = browser.execute_script(CONTRAST)
            assert found["count"] > 10, name
            assert found["low"] == [], (name, scheme)
        assert browser.execute_script(OUTSIDE) == [], name
        emulate(browser, 360, "light")
        sizes = browser.execute_script(OVERFLOW)
        assert sizes["wide"] == [], name
        assert sizes["page"] <= sizes["width"] == 360, name
        named = browser.execute_script(NAMES)
        assert named["nameless"] == 0, name
        assert named["pictures"] >= 1, name
        levels = browser.execute_script(HEADINGS)
        assert levels[0] == 1, name
        assert all(after - before <= 1 for before, after in pairwise(levels)), name
        check_keys(browser, name)
        assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == [], (
            name
        )
        for entry in browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                assert message["params"]["request"]["url"] == file.as_uri(), name


def check_keys(browser: Any, name: str) -> None:
    """Everything that can be used is reached by the tab key, in the order of the page, the skip link first."""
    from selenium.webdriver.common.keys import Keys

    reachable = browser.execute_script(REACHED)
    browser.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
    places = []
    body = browser.find_element("tag name", "body")
    body.click() if not reachable else None
    for _ in reachable[:25]:
        browser.switch_to.active_element.send_keys(Keys.TAB)
        places.append(browser.execute_script("return Number(document.activeElement.dataset.place)"))
    assert places == list(range(len(places))), name
    if "skip" in browser.page_source and name != "fit":
        first = browser.execute_script("return document.querySelector('[data-place=\"0\"]').className")
        assert first == "skip", name

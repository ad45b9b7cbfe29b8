"""The report: complete, harmless, and readable in browsers of any width."""

import re
import shutil

import pytest
from faults import Fault, injected
from playwright.sync_api import sync_playwright

import sweep
from sweep.report import output, page

CHROMIUM = shutil.which("chromium")
HANG = 300_000
"""Milliseconds."""
HOSTILE = "<script>document.title = 'owned'</script>"
EXPERIMENT = f"""
title: "Ranges {HOSTILE}"
reference: IP
figures:
  - {{variable: squared_privacy_cost, x: d, title: "{HOSTILE}"}}
blocks:
  - workload: {{name: prefix, d: [2, 4]}}
    mechanism: [IP, GM, {{name: HM, label: "{HOSTILE}"}}]
claims:
  - {{variable: squared_privacy_cost, at: {{mechanism: IP}}, most: 4, text: "{HOSTILE}"}}
"""


@pytest.fixture
def store(tmp_path, client):
    (tmp_path / "mine.yaml").write_text(EXPERIMENT)
    with injected(client, tmp_path, Fault("raise", "GM", times=2)):
        sweep.run(tmp_path / "mine.yaml", tmp_path / "store", client)
    return tmp_path / "store"


def test_the_report_has_everything_and_needs_nothing_else(store, command, refusal):
    assert command("report", store).exit_code == 0
    text = (store / "report.html").read_text()
    for told in (
        "4 ok, 2 failed of 6 cells",
        "ValueError: broken on purpose",
        "Traceback (most recent call last)",
        "add-remove",
        "what the text says",
        "core-hours",
        "data:image/svg+xml;base64,",
    ):
        assert told in text
    assert "<script" not in text
    without_namespaces = re.sub(r'(xmlns(:\w+)?|rdf:resource)="[^"]*"', "", text)
    assert not re.search(r'(src|href)="(http|//)', without_namespaces)
    assert "@import" not in text
    assert "cannot write" in refusal("report", store, "--output", store / "store.json" / "x.html")


def test_failures_are_grouped_and_come_after_the_results(store):
    text = page.make_report(store)
    section = text[text.index('<section id="troubles"') :]
    assert text.index('<section id="tables"') < text.index('<section id="troubles"')
    assert section.count("<summary><span") == 1
    assert "2 failed" in section
    assert len(re.findall(r"<li>prefix: d = [24], mechanism = GM", section)) == 2


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path")
def test_it_fits_every_screen_and_says_nothing_to_the_console(store):
    output.write(store / "report.html", page.make_report(store))
    with sync_playwright() as player:
        browser = player.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=HANG
        )
        for width in (360, 1280):
            told = []
            shown = browser.new_page(viewport={"width": width, "height": 800})
            shown.set_default_timeout(HANG)
            shown.on("console", lambda message, told=told: told.append(message.text))
            shown.on("pageerror", lambda error, told=told: told.append(str(error)))
            shown.on("request", lambda one, told=told: told.append(one.url))
            shown.goto((store / "report.html").as_uri())
            requests = [one for one in told if not one.startswith(("file:", "data:"))]
            assert requests == []
            assert shown.evaluate("document.documentElement.scrollWidth") <= width
            assert shown.title() == f"Ranges {HOSTILE}"
            row = shown.get_by_role("row").filter(has_text="IP").first
            assert "4.000" in shown.locator("#tables").inner_text()
            assert row.is_visible()
            shown.keyboard.press("Tab")
            assert shown.evaluate("document.activeElement.textContent") == "Skip to the results"
            shown.locator("#troubles summary").focus()
            shown.keyboard.press("Enter")
            assert shown.get_by_text("Traceback (most recent call last)").is_visible()
            assert {one.get_attribute("id") for one in shown.get_by_role("main").all()} == {"main"}
            ids = shown.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
            assert len(ids) == len(set(ids))
            shown.close()
        browser.close()

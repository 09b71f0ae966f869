"""A real browser before a real daemon; skipped where no Chromium is installed."""

import os
import shutil
from collections.abc import Generator, Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.web_ui.daemon import WebDaemon

NAMES = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = ("--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run")
PATIENCE_MS = 30_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for a module. Playwright's own download is not asked for."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no chromium is installed: the web page is not tried in a browser")
    # Chromium has no sandbox for root; what is opened is our own page.
    switches = [*SWITCHES, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as driver:
        expect.set_options(timeout=PATIENCE_MS)
        started = driver.chromium.launch(executable_path=program, args=switches)
        yield started
        started.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show beside a failure what its daemon printed last: whether the loop, the disk or the browser was late."""
    report = yield
    daemon = getattr(item, "funcargs", {}).get("daemon")
    if report.failed and isinstance(daemon, WebDaemon):
        report.sections.append(("the daemon", daemon.output[-4_000:]))
    return report

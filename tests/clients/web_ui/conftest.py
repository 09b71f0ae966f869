"""A real browser before a real daemon, both shared by the tests that a worker runs one after the other; skipped where
no Chromium is installed."""

import os
import shutil
from collections.abc import Generator, Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.clients.web_ui.daemon import WebDaemon, running
from tests.clients.web_ui.seen import register
from tests.clients.web_ui.shared import shared_daemon

NAMES = ("chromium", "chromium-browser", "google-chrome")
POPUPS = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup")
"""Pages of the address bar, which nobody sees here: for each new device they cost as much as all the rest."""
# Chromium counts the last list of features alone: of Playwright's, what asks other machines or changes addresses.
OUTSIDE = (
    "AimEnabled",
    "HttpsUpgrades",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PreconnectToSearch",
)
SWITCHES = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    f"--disable-features={','.join((*POPUPS, *OUTSIDE))}",
)
PATIENCE_MS = 30_000


@pytest.fixture(scope="package")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDaemon]:
    """The shared daemon; modules that need another one have a fixture of this name."""
    with running(shared_daemon(tmp_path_factory.mktemp("web"))) as made:
        yield made


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser. Playwright's own download is not asked for."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no chromium is installed: the web page is not tried in a browser")
    # Chromium has no sandbox for root; what is opened is our own page.
    switches = [*SWITCHES, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as driver:
        register(driver)
        expect.set_options(timeout=PATIENCE_MS)
        started = driver.chromium.launch(executable_path=program, args=switches)
        yield started
        started.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show beside a failure what its daemons printed last: whether the loop, the disk or the browser was late."""
    report = yield
    daemons = [made for made in getattr(item, "funcargs", {}).values() if isinstance(made, WebDaemon)]
    if report.failed:
        report.sections += [("the daemon", daemon.output[-4_000:]) for daemon in daemons]
    return report

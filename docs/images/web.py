"""Make docs/images/web-*.png: the real page before a real daemon, whose model follows a script.

.venv-dev/bin/python docs/images/web.py [FOLDER]     (with Chromium: `apt install chromium`)
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from playwright.sync_api import Browser, expect, sync_playwright

from tests.clients.web_ui.daemon import ANN, Json, WebDaemon, running, talk
from tests.clients.web_ui.device import SIZES, Device, Theme, device
from tests.clients.web_ui.seen import register

FOLDER = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent
THEMES: tuple[Theme, ...] = ("light", "dark")
MAX_BYTES = 150_000
ASKED = "What takes the most room here? If it is old logs, pack them."
COUNT = "du -sk * | sort -rn"
PACK = "tar -czf logs.tar.gz logs && rm -r logs"
FOUND = """`logs` does: **1.5 MB** of 1.6.

| folder | size | last change |
|---|---:|---|
| `logs` | 1.5 MB | March |
| `notes` | 4 kB | today |

```sh
tar -xzf logs.tar.gz   # brings the logs back
```

The last of them was written in March, so I would pack them."""
ANSWERS: list[Json] = [
    {"when": ASKED, "calls": [{"id": "c1", "name": "exec", "input": {"command": COUNT}}]},
    {"when": "logs\n", "text": FOUND, "calls": [{"id": "c2", "name": "exec", "input": {"command": PACK}}]},
]


def main() -> None:
    """Play the scene once, and look at it on every screen."""
    with tempfile.TemporaryDirectory() as home, sync_playwright() as driver:
        daemon = WebDaemon(Path(home), ANSWERS, config={"policy": {"always_ask": ["exec"]}})
        daemon.prepare()
        _fill(daemon.workspace)
        daemon.seed("telegram:123456", talk(12, "harbour"))
        register(driver)
        expect.set_options(timeout=30_000)  # it may be made on a busy machine
        switches = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--disable-gpu", *switches])
        with running(daemon):
            _play(browser, daemon)
        browser.close()


def _fill(workspace: Path) -> None:
    (workspace / "logs").mkdir()
    (workspace / "notes").mkdir()
    (workspace / "notes" / "today.md").write_text("Buy milk.\n")
    (workspace / "logs" / "march.log").write_text("nothing happened\n" * 90_000)


def _play(browser: Browser, daemon: WebDaemon) -> None:
    token = daemon.token(ANN)
    with device(browser, daemon) as here:
        here.sign_in(token)
        here.say(ASKED)
        here.button("Allow").click()
        expect(here.page.locator("question-card")).to_have_count(2)
        expect(here.button("Allow")).to_be_enabled()
        for width in SIZES:
            for theme in THEMES:
                _picture(browser, here, token, width, theme)


def _picture(browser: Browser, known: Device, token: str, width: int, theme: Theme) -> None:
    with device(browser, known.daemon, width, theme) as here:
        here.sign_in(token)
        expect(here.button("Allow")).to_be_enabled()
        here.page.evaluate("document.activeElement.blur()")
        file = FOLDER / f"web-{width}-{theme}.png"
        here.page.screenshot(path=file, animations="disabled")
        if file.stat().st_size > MAX_BYTES:
            raise SystemExit(f"{file} has {file.stat().st_size} bytes, more than {MAX_BYTES}")


main()

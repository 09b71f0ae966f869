"""Make docs/images/terminal.svg: the real client before a real daemon, whose model follows a script.

.venv-dev/bin/python docs/images/make.py [FILE]
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from goclaw.clients.tui.app import DaemonPlace, Terminal
from goclaw.common.config.schema import default_state_dir

FILE = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_name("terminal.svg")
SIZE = (92, 33)
PATIENCE = 15.0
LOOK_SECONDS = 0.05
SCRIPT = "tidy.json"
ASKED = "What takes the most room here? If it is old logs, pack them."
COUNT = "du -sk * | sort -rn"
PACK = "tar -czf logs.tar.gz logs && rm -r logs"
FOUND = "`logs` does: **1.5 MB** of 1.6. The last of them was written in March, so I would pack them."
ANSWERS: list[dict[str, Any]] = [
    {"calls": [{"id": "c1", "name": "exec", "input": {"command": COUNT}}]},
    {
        "text": FOUND,
        "calls": [
            {
                "id": "c2",
                "name": "ask_user",
                "input": {
                    "questions": [
                        {
                            "question": "Shall I pack the folder logs and remove it afterwards?",
                            "options": ["Yes", "Pack it, remove nothing"],
                        }
                    ]
                },
            }
        ],
    },
    {"calls": [{"id": "c3", "name": "exec", "input": {"command": PACK}}]},
    {
        "text": "Done. What is here now:\n\n"
        "| file | size |\n|---|---:|\n| `logs.tar.gz` | 2 kB |\n| `notes` | 4 kB |\n\n"
        "`tar -xzf logs.tar.gz` brings the logs back."
    },
]


async def main() -> None:
    """Play the scene and keep the last picture of it."""
    with tempfile.TemporaryDirectory() as home:
        os.environ.clear()
        os.environ.update(_environment(Path(home)))
        state = default_state_dir()
        _prepare(state)
        with _daemon(state):
            FILE.write_text(await _scene(DaemonPlace(state / "goclaw.sock", state / "logs" / "goclaw.log", state)))


async def _scene(place: DaemonPlace) -> str:
    app = Terminal(place, "tui:main")
    async with app.run_test(size=SIZE) as pilot:

        async def until(text: str) -> None:
            try:
                async with asyncio.timeout(PATIENCE):
                    while text not in _shown(app):
                        await pilot.pause(LOOK_SECONDS)
            except TimeoutError:
                raise SystemExit(f"{text!r} does not come:\n{_shown(app)}") from None

        async def type_(text: str) -> None:
            await pilot.press(*("space" if key == " " else key for key in text), "enter")

        await until("scripted")
        await type_(ASKED)
        await until("remove nothing")
        await type_("Yes")
        await until("brings the logs back")
        await until("turn answered")
        await pilot.press("ctrl+l")  # the chat alone, without the log
        await pilot.pause(1.0)
        return app.export_screenshot(title="goclaw")


def _shown(app: Terminal) -> str:
    lines = app.screen._compositor.render_strips()  # Textual has no other way to read its screen
    return "\n".join(strip.text for strip in lines)


def _environment(home: Path) -> dict[str, str]:
    path = os.environ.get("PATH", os.defpath)
    ours = {"PYTHONPATH": str(Path(__file__).parents[2]), "OLLAMA_HOST": "http://127.0.0.1:9"}
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "xterm", **ours}


def _prepare(state: Path) -> None:
    workspace = state / "workspace"
    (workspace / "logs").mkdir(parents=True)
    state.chmod(0o700)
    (workspace / "notes").write_text("Buy milk.\n")
    (workspace / "logs" / "march.log").write_text("nothing happened\n" * 90_000)
    (state / SCRIPT).write_text(json.dumps(ANSWERS))
    config = {"models": {"agent": [f"scripted:{SCRIPT}"], "summary": []}}
    (state / "config.yaml").write_text(json.dumps(config))


@contextmanager
def _daemon(state: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "goclaw", "gateway"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=state) as process:
        try:
            if not any("GoClaw is running" in line for line in process.stdout or ()):
                raise SystemExit(f"the daemon did not start; see {state}")
            yield
        finally:
            process.terminate()


asyncio.run(main())

"""nanobot, a peer that is measured beside GoClaw by hand (`--peer nanobot`), in an environment of its own.

As a program, `python -m benchmarks.nanobot --config FILE gateway` in that environment: writes nanobot's configuration
from ours, leads its Telegram channel, which knows no other server, to the one that ours names, and becomes nanobot. All
the rest is its default.
"""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from telegram.ext import Application, ApplicationBuilder

from benchmarks.gateways import NANOBOT, ROOT

VERSION = "0.3.5"
TELEGRAM = "python-telegram-bot[socks,webhooks]>=22.6,<23.0"
"""What its Telegram channel needs, by its own manifest."""


def installed() -> None:
    """Make its environment, where it is missing; needs a package index and a minute.

    Raises:
        subprocess.CalledProcessError: it cannot be installed; the installer said why.
    """
    python = Path(NANOBOT.python)
    stamp = python.parent.parent / ".stamp"
    if stamp.exists() and stamp.read_text("utf-8") == VERSION:
        return
    bootstrap = [sys.executable, str(ROOT / "scripts" / "_bootstrap.py"), "uv"]
    uv = subprocess.run(bootstrap, capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(stamp.parent)], check=True)
    install = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python)]
    subprocess.run([*install, f"nanobot-ai=={VERSION}", TELEGRAM], check=True)
    stamp.write_text(VERSION, "utf-8")


def configuration(ours: dict[str, Any]) -> dict[str, Any]:
    """Return nanobot's configuration: the same bot, model and folder, everybody allowed."""
    provider = ours["providers"]["openai-chat"]
    return {
        "agents": {"defaults": {"workspace": f"{ours['state_dir']}/workspace", "provider": "custom", "model": "bench"}},
        "providers": {"custom": {"apiKey": provider["api_key"], "apiBase": provider["base_url"]}},
        "channels": {"telegram": {"enabled": True, "token": ours["telegram"]["token"], "allowFrom": ["*"]}},
        "gateway": {"port": 0},
    }


def lead_to(server: str) -> None:
    """Let python-telegram-bot's applications talk to another server than Telegram's."""
    build = ApplicationBuilder.build

    def build_there(self: Any) -> Application[Any, Any, Any, Any, Any, Any]:
        return build(self.base_url(f"{server}/bot").base_file_url(f"{server}/file/bot"))

    ApplicationBuilder.build = build_there  # type: ignore[method-assign]  # it has no setting for that


if __name__ == "__main__":
    path = Path(sys.argv[sys.argv.index("--config") + 1])
    ours = yaml.safe_load(path.read_text("utf-8"))
    theirs = path.with_name("nanobot.json")
    theirs.write_text(json.dumps(configuration(ours)), "utf-8")
    lead_to(ours["telegram"]["base_url"])
    sys.argv = ["nanobot", "gateway", "--foreground", "--config", str(theirs)]
    runpy.run_module("nanobot", run_name="__main__", alter_sys=True)

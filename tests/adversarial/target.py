"""The program as an attacker meets it: the command line, with canaries in its environment and configuration."""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.forked import SECONDS, run_goclaw

ROOT = Path(__file__).resolve().parents[2]
CANARIES = {
    "ANTHROPIC_API_KEY": "sk-ant-canary-of-the-environment",
    "OPENAI_API_KEY": "plain-canary-without-a-shape",
    "TELEGRAM_BOT_TOKEN": "123456789:AAcanary-canary-canary-canary-canary",
}
"""Secrets that no output may show."""

Call = Mapping[str, Any] | bytes
"""A line of `--jsonl`: an object, or bytes as they are."""


FIXED = {
    "PATH": os.environ.get("PATH", os.defpath),
    "PYTHONPATH": str(ROOT),
    "OLLAMA_HOST": "http://127.0.0.1:9",
    **CANARIES,
}
"""The environment of every command, beside the folders."""


@dataclass(frozen=True)
class Target:
    """A state folder and a workspace below one folder."""

    folder: Path
    cold: bool = False
    """Whether Python is started for each command, which takes a second, and not forked (`tests.forked`)."""
    seconds: float = SECONDS
    """How long a command may take."""

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def workspace(self) -> Path:
        return self.folder / "work"

    @property
    def config(self) -> Path:
        return self.folder / "config.yaml"

    def run(self, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """`goclaw <arguments>` to its end. Whatever happens: no traceback, no canary."""
        environment = {**FIXED, "HOME": str(self.folder), "GOCLAW_CONFIG": str(self.config)}
        done = run_goclaw(arguments, environment, self.folder, given=given, seconds=self.seconds, cold=self.cold)
        said = (done.stdout + done.stderr).decode(errors="replace")
        assert not re.search("Traceback|unexpected error|failed unexpectedly", said), said[-3000:]
        assert [name for name, canary in CANARIES.items() if canary in said] == []
        return done

    def calls(self, *calls: Call, arguments: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """The answers to these lines, one each, in order."""
        lines = [call if isinstance(call, bytes) else json.dumps(call).encode() for call in calls]
        done = self.run("tool", "run", "--jsonl", *arguments, given=b"".join(line + b"\n" for line in lines))
        answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
        assert done.returncode == 0 and len(answers) == len(calls), (done.stderr, answers[:3])
        return answers

    def errors(self, *calls: Call, arguments: tuple[str, ...] = ()) -> list[str]:
        """The error texts; an empty text for a call that went well."""
        return [answer.get("error", "") for answer in self.calls(*calls, arguments=arguments)]


def read(path: object, **more: object) -> dict[str, Any]:
    """A call of `read`."""
    return {"tool": "read", "input": {"path": path, **more}}


def write(path: object, content: object = "x") -> dict[str, Any]:
    """A call of `write`."""
    return {"tool": "write", "input": {"path": path, "content": content}}


def edit(path: object, old: object, new: object) -> dict[str, Any]:
    """A call of `edit`."""
    return {"tool": "edit", "input": {"path": path, "old_string": old, "new_string": new}}


def run(command: object, **more: object) -> dict[str, Any]:
    """A call of `exec`."""
    return {"tool": "exec", "input": {"command": command, **more}}

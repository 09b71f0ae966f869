"""The programs that are measured: GoClaw, and what stands beside it."""

import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / ".venv" / "bin" / "python"
PYTHON = str(SHIPPED) if SHIPPED.exists() else sys.executable
"""What runs the daemon: the environment of `scripts/run`, without the libraries of the tests, where it was made."""


@dataclass(frozen=True)
class Gateway:
    """A program that answers people on Telegram: `python OPTIONS -m MODULE --config FILE COMMAND`."""

    name: str
    module: str
    command: str = "gateway"
    python: str = PYTHON
    options: tuple[str, ...] = ()


GOCLAW = Gateway("goclaw", "goclaw")
GOCLAW_IMPORTING = Gateway("goclaw", "goclaw", options=("-X", "importtime"))
"""Says on stderr what each import takes."""
FLOOR = Gateway("floor", "benchmarks.floor")
NANOBOT = Gateway("nanobot", "benchmarks.nanobot", python=str(ROOT / ".tools" / "nanobot" / "bin" / "python"))
WATCHED_GOCLAW = Gateway("goclaw", "benchmarks.lag_probe")
WATCHED_FLOOR = Gateway("floor", "benchmarks.lag_probe", "floor")
"""Both with a watch on the event loop."""

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
    """A program that answers people on Telegram: `python -m MODULE --config FILE COMMAND`."""

    name: str
    module: str
    command: str = "gateway"
    python: str = PYTHON


GOCLAW = Gateway("goclaw", "goclaw")
FLOOR = Gateway("floor", "benchmarks.floor")
WATCHED_GOCLAW = Gateway("goclaw", "benchmarks.lag_probe")
WATCHED_FLOOR = Gateway("floor", "benchmarks.lag_probe", "floor")
"""Both with a watch on the event loop."""

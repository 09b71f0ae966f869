"""`python -m benchmarks.soak --minutes 30 --seed 1 [--rate 5] [--output FILE]`; 1 when something is wrong."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from benchmarks.soak.run import Soak


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--rate", type=float, default=5, help="messages a second")
    parser.add_argument("--output", type=Path, help="where the report goes; it is written as the run goes on")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="goclaw-soak-", ignore_cleanup_errors=True) as folder:
        soak = Soak(Path(folder), options.seed, 60 * options.minutes, options.rate, options.output)
        faults = asyncio.run(soak.run())
    for fault in faults:
        sys.stdout.write(f"WRONG  {fault}\n")
    sys.stdout.write("ok\n" if not faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

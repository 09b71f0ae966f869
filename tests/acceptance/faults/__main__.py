"""`python -m tests.acceptance.faults [--output FILE]`: every cell of both tables; 1 when one is not as it should be."""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.acceptance.faults.model_matrix import SITES, Site, cells_of, run_site
from tests.acceptance.faults.telegram_matrix import run_all
from tests.acceptance.waiting import clock


async def models(folder: Path, sites: list[Site]) -> tuple[list[str], list[dict[str, Any]]]:
    """The table of the models."""
    wrong: list[str] = []
    rows: list[dict[str, Any]] = []
    for site in sites:
        began, cells = clock.monotonic(), list(cells_of(site, "all"))
        found = await run_site(folder / site.replace(" ", "-"), site, cells)
        wrong += found
        rows += [cell.as_json() for cell in cells]
        seconds = clock.monotonic() - began
        sys.stdout.write(f"{site}: {len(cells)} cells, {len(found)} wrong, {seconds:.0f} s\n")
        sys.stdout.flush()
    return wrong, rows


async def telegram(folder: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """The table of Telegram."""
    began = clock.monotonic()
    wrong, cells = await run_all(folder / "telegram")
    sys.stdout.write(f"Telegram: {len(cells)} cells, {len(wrong)} wrong, {clock.monotonic() - began:.0f} s\n")
    return wrong, [cell.as_json() for cell in cells]


def shown(wrong: list[str], tables: dict[str, list[dict[str, Any]]]) -> str:
    """The report, a line for each cell."""
    parts = [f'"wrong": {json.dumps(wrong)}']
    for name, rows in tables.items():
        lines = ",\n".join(map(json.dumps, rows))
        parts.append(f'"{name}": [\n{lines}\n]')
    return "{" + ",\n".join(parts) + "}\n"


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="tests.acceptance.faults", description=__doc__)
    parser.add_argument("--site", action="append", choices=SITES, help="only this one of the models' table")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="goclaw-faults-", ignore_cleanup_errors=True) as folder:
        calls, said = ([], []) if options.site else asyncio.run(telegram(Path(folder)))
        wrong, rows = asyncio.run(models(Path(folder), options.site or list(SITES)))
    wrong = [*calls, *wrong]
    if options.output:
        options.output.write_text(shown(wrong, {"telegram": said, "models": rows}), "utf-8")
    sys.stdout.write("".join(f"WRONG  {line}\n" for line in wrong) or "ok\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Run the long lane of tests and keep its report in benchmarks/results (see `scripts/test --long`).

    _long.py             everything
    _long.py --model     only the part with a real language model

What is marked `long` or `deep` with its full number of repetitions, every planted bug, hundreds of kills, millions of
exchanged names: about an hour on two cores. Each part that has a report of its own writes it beside `long-<date>.json`.
Runs inside .venv-dev as `python -m scripts._long`, started by `_checks.py`. Exits 0 when nothing failed, else 1.
"""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from scripts._checks import ON_OLDEST_POSTGRES, ON_POSTGRES, ON_THE_STORE, ROOT, remember, report, tests, timed

RESULTS = ROOT / "benchmarks" / "results"
JUNIT = ROOT / ".tools" / "long.xml"
SECONDS = 7_200
"""For one part; the longest takes a third of it."""
ONE_TEST_SECONDS = 1_200


def main() -> int:
    """Run the parts, write the report, return the exit code."""
    today = datetime.now(UTC).date().isoformat()
    if sys.argv[1:] == ["--containers"]:
        return containers(today)
    os.environ["TESTS_LONG"] = "1"
    notes, with_model = real_model(today)
    if sys.argv[1:] == ["--model"]:
        return report([(name, *timed(name, command, SECONDS)) for name, command in with_model], notes) or bool(notes)
    notes += embedding_python()
    results = [(name, *timed(name, command, SECONDS)) for name, command in [*parts(today), *with_model]]
    kept = {
        "made": today,
        "revision": revision(),
        "parts": [{"name": name, "passed": not code, "seconds": round(took)} for name, code, took in results],
        "tests": tried(JUNIT),
    }
    (RESULTS / f"long-{today}.json").write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    return report(results, notes)


def containers(today: str) -> int:
    """Run the container lane, write `containers-<date>.json`, return the exit code.

    What failed is run once more with nothing beside it, for a machine that does other work is slow; both ends are kept.
    """
    # An engine for each worker: one waits for containers while the other one computes.
    runs = {"tests": ["-n", "2", "--dist=loadfile", "--verbose"], "again": ["--last-failed", "--verbose"]}
    patient = ["-o", f"faulthandler_timeout={ONE_TEST_SECONDS}", f"--junitxml={JUNIT}"]
    kept: dict[str, object] = {"made": today, "revision": revision()}
    results = []
    for name, how in runs.items():
        command = [sys.executable, "-m", "pytest", "-m", "containers", "tests/containers", *how, *patient]
        code, took = timed(f"containers: {name}", command, SECONDS)
        results.append((f"containers: {name}", code, took))
        kept |= {f"{name}_seconds": round(took), name: tried(JUNIT)}
        (RESULTS / f"containers-{today}.json").write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        if code == 0:
            break
    report(results, [])
    return results[-1][1]


def parts(today: str) -> list[tuple[str, list[str]]]:
    """Return the parts: a heading and a command each."""
    python = [sys.executable, "-m"]
    marked = ["-m", "(long or deep) and not containers", f"--timeout={ONE_TEST_SECONDS}", f"--junitxml={JUNIT}"]
    patient = ["-o", f"faulthandler_timeout={2 * ONE_TEST_SECONDS}"]
    kills = ["--kills", "300", "--seed", today, "--output", str(RESULTS / f"kill-{today}.json")]
    replicas = ["--kills", "200", "--seed", today, "--output", str(RESULTS / f"replicas-{today}.json")]
    races = ["--swaps", "1000000", "--output", str(RESULTS / f"races-{today}.json")]
    faults = ["--output", str(RESULTS / f"faults-{today}.json")]
    planted = ["--jobs", "2", "--write", str(RESULTS / f"mutations-{today}.json")]
    return [
        ("tests marked long or deep", tests(*marked, *patient)),
        ("every test that opens a database, on Postgres", tests(*ON_POSTGRES, *ON_THE_STORE)),
        ("the same on the oldest Postgres", tests(*ON_OLDEST_POSTGRES, *ON_THE_STORE)),
        ("containers", [*python, "scripts._long", "--containers"]),
        ("kills", [*python, "tests.acceptance.fuzz", *kills]),
        ("kills and pauses of three gateways on one Postgres", [*python, "tests.acceptance.replica_fuzz", *replicas]),
        ("faults", [*python, "tests.acceptance.faults", *faults]),
        ("races", [*python, "tests.common.workspace.races", *races]),
        ("planted bugs", [*python, "tests.mutations", *planted]),
    ]


def real_model(today: str) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Make the real server and its models and name them to the tests; return the part that uses them, or a note."""
    command = [sys.executable, str(ROOT / "scripts" / "_real_model.py")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        return remember(f"the lane with a real model is left out: {made.stderr.strip()}"), []
    os.environ.setdefault("REAL_MODEL", made.stdout.strip())
    output = str(RESULTS / f"model-{today}.json")
    return [], [("a real model", [sys.executable, "-m", "tests.real_model", "--output", output])]


def tried(junit: Path) -> list[dict[str, object]]:
    """Return every test of pytest's report with its seconds and how it ended; an empty list where there is none."""
    if not junit.exists():
        return []
    ends = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    return [
        {
            "test": f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}",
            "seconds": float(case.get("time", "0")),
            "end": next((ends[part.tag] for part in case if part.tag in ends), "passed"),
        }
        for case in ElementTree.parse(junit).iter("testcase")  # noqa: S314  # pytest has just written it
    ]


def revision() -> str:
    """Return the commit that is tried, with a `+` when the tree differs from it."""
    command = ["git", "describe", "--always", "--dirty=+"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def embedding_python() -> list[str]:
    """Make the Python with a real embedding model and name it to the tests; return a note when that is impossible."""
    command = [sys.executable, str(ROOT / "scripts" / "_embedding.py")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        return remember(f"the tests with a real embedding model are skipped: {made.stderr.strip()}")
    os.environ.setdefault("EMBEDDING_PYTHON", made.stdout.strip())
    return []


if __name__ == "__main__":
    sys.exit(main())

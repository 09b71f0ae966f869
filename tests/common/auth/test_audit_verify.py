"""`goclaw audit verify`: every way of changing the audit log is found, with its place; nothing else is."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from goclaw.common.auth.audit_chain import ChainedFiles, Head, digest_of
from goclaw.common.auth.audit_verify import verify_audit
from goclaw.program.cli.program import run
from tests.tables import table

pytestmark = [pytest.mark.promise("P-audit")]
LINES = 12
Lines = list[bytes]


def written(path: Path) -> Head:
    """Twelve lines in two files, six in each; returns the last."""
    files = ChainedFiles(path, 1 << 20, 10)
    for number in range(LINES):
        if number == LINES // 2:
            path.rename(path.with_name(f"{path.name}.1"))
        entry = {"at": f"{number}", "action": "tool.use", "object": "exec", "allowed": True, "detail": f"ls {number}"}
        files.append([entry])
    return files.head


def with_field(line: bytes, **fields: object) -> bytes:
    return orjson.dumps({**orjson.loads(line), **fields}) + b"\n"


def forged(lines: Lines, at: int) -> bytes:
    """A line that fits behind the line `at`."""
    before = orjson.loads(lines[at])
    return with_field(lines[at], n=before["n"] + 1, prev=digest_of(before), detail="rm")


def made_anew(lines: Lines) -> Lines:
    """The same chain with another third line."""
    made, before = list(lines[:2]), orjson.loads(lines[1])
    for line in lines[2:]:
        made.append(with_field(line, prev=digest_of(before), allowed=False))
        before = orjson.loads(made[-1])
    return made


ATTACKS: list[tuple[str, Callable[[Lines], Lines], str, str]] = [
    ("a field changed", lambda f: [*f[:2], with_field(f[2], allowed=False), *f[3:]], ".1:3", "was changed"),
    ("words changed", lambda f: [*f[:2], with_field(f[2], detail="no"), *f[3:]], ".1:3", "was changed"),
    ("a salt changed", lambda f: [*f[:2], with_field(f[2], salt="no"), *f[3:]], ".1:3", "was changed"),
    ("a field added", lambda f: [*f[:2], with_field(f[2], rule="r"), *f[3:]], ".1:3", "was changed"),
    ("a number changed", lambda f: [*f[:2], with_field(f[2], n=77), *f[3:]], ".1:3", "was changed"),
    (
        "a space added",
        lambda f: [*f[:2], f[2].replace(b",", b", ", 1), *f[3:]],
        ".1:3",
        "does not write lines like this",
    ),
    ("the first changed", lambda f: [with_field(f[0], object="x"), *f[1:]], ".1:1", "was changed"),
    ("the last of a file changed", lambda f: [*f[:5], with_field(f[5], object="x"), *f[6:]], ".1:6", "was changed"),
    ("the last changed", lambda f: [*f[:11], with_field(f[11], object="x")], ":6", "the database knows a different"),
    ("one removed", lambda f: [*f[:2], *f[3:]], ".1:3", "line 3 of the chain is missing before"),
    ("several removed", lambda f: [*f[:2], *f[5:]], ".1:3", "lines 3 to 5 of the chain are missing before"),
    ("the first removed", lambda f: f[2:], ".1:1", "lines 1 to 2 of the chain are missing before"),
    ("an older file emptied", lambda f: f[6:], ":1", "lines 1 to 6 of the chain are missing before"),
    ("the end of an older file", lambda f: [*f[:4], *f[6:]], ":1", "lines 5 to 6 of the chain are missing before"),
    ("cut off", lambda f: f[:9], ":3", "lines 10 to 12 of the chain are missing after"),
    ("cut off within a line", lambda f: [*f[:11], f[11][:20]], ":5", "line 12 of the chain is missing after"),
    ("one inserted that fits", lambda f: [*f[:3], forged(f, 2), *f[3:]], ".1:4", "was inserted"),
    ("one inserted twice", lambda f: [*f[:3], f[2], *f[3:]], ".1:3", "was inserted"),
    ("one inserted that fits nowhere", lambda f: [*f[:3], with_field(f[2], n=4), *f[3:]], ".1:4", "was inserted"),
    ("one inserted with a high number", lambda f: [*f[:3], with_field(f[2], n=99), *f[3:]], ".1:4", "was inserted"),
    ("one inserted without a number", lambda f: [*f[:3], b'{"at":"x"}\n', *f[3:]], ".1:4", "was inserted"),
    ("rubbish inserted", lambda f: [*f[:3], b"rubbish\n", *f[3:]], ".1:4", "changed or inserted"),
    ("one made rubbish", lambda f: [*f[:2], b"rubbish\n", *f[3:]], ".1:3", "changed or inserted"),
    ("odd kinds of values", lambda f: [*f[:2], with_field(f[2], action=[], n=True), *f[3:]], ".1:3", "was inserted"),
    ("everything made anew", made_anew, ":6", "the database knows a different"),
    ("everything removed", lambda f: [], "", "lines 1 to 12 of the chain are missing"),
]


def attacked(path: Path, attack: Callable[[Lines], Lines]) -> None:
    """Change both files as if they were one; the newer begins where it began."""
    files = [path.with_name(f"{path.name}.1"), path]
    lines = [line for file in files for line in file.read_bytes().splitlines(keepends=True)]
    newer = orjson.loads(lines[6])["n"]
    changed = attack(lines)
    cut = next((at for at, line in enumerate(changed) if b'"since":' in line), len(changed))
    assert newer == 7
    files[0].write_bytes(b"".join(changed[:cut]))
    files[1].write_bytes(b"".join(changed[cut:]))


@table("name, attack, place, text", ATTACKS, ids=lambda name: name)
def test_each_attack_is_found_where_it_was_made(
    name: str, attack: Callable[[Lines], Lines], place: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "audit.jsonl"
    head = written(path)
    assert verify_audit(path, head).findings == []
    attacked(path, attack)
    found = verify_audit(path, head).findings
    expected = f"{path}{place}" if place else "the audit log"
    assert any(finding.place == expected and text in finding.text for finding in found), found
    assert len(found) <= 2, found


@pytest.mark.deep
def test_no_change_at_random_goes_unseen(tmp_path: Path) -> None:
    chance = random.Random(21)
    path = tmp_path / "audit.jsonl"
    head = written(path)
    whole = path.read_bytes()
    for _ in range(300):
        at = chance.randrange(len(whole) - 1)
        changed = bytearray(whole)
        changed[at] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        assert verify_audit(path, head).findings, (at, bytes(changed[max(0, at - 20) : at + 20]))


def test_without_the_database_the_last_line_alone_is_not_certain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    written(path)
    attacked(path, lambda lines: lines[:9])
    assert verify_audit(path, None).findings == []


async def test_the_command_names_the_places_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "state" / "logs" / "audit.jsonl"
    path.parent.mkdir(parents=True)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    assert await asyncio.to_thread(run, ["audit", "verify"]) == 0
    assert "there is no chain yet" in capsys.readouterr().out
    written(path)
    assert await asyncio.to_thread(run, ["audit", "verify"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"12 lines verified, starting at {path}.1:1: no fault found\n")
    assert "so lines may be missing at the end" in output
    attacked(path, lambda lines: [with_field(line, object="x") for line in lines])
    assert await asyncio.to_thread(run, ["audit", "verify"]) == 1
    assert capsys.readouterr().out.startswith(f"{path}.1:1: was changed: the next line has a different hash for it\n")
    assert await asyncio.to_thread(run, ["audit", "-n", "1"]) == 0
    assert orjson.loads(capsys.readouterr().out)["detail"] == "ls 11"

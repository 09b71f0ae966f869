"""The files of the audit log as a chain: over rotation, restarts, crashes and several processes, without words."""

import asyncio
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from goclaw.common.auth.audit import FACT, Audit, AuditEntry, audit_path, open_audit, read_audit
from goclaw.common.auth.audit_chain import Blanking, ChainedFiles, Head, digest_of, lacking, moment
from goclaw.common.auth.audit_verify import Verified, verify_audit
from goclaw.common.config.policies import AuditSettings
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.errors import DiskError, DiskFault
from goclaw.testing import SteppedClock
from tests.acceptance.waiting import eventually

pytestmark = [pytest.mark.promise("P-audit")]
ANN = Actor("telegram:5", "telegram")
SAID = AuditEntry("tool.use", "exec", ANN, "telegram:5", result="ok", detail="command=echo pomegranate")
START = 1_750_000_000.0


class Facts:
    """What the database keeps. Implements `config.state.Facts`."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.fault: DiskError | None = None

    async def fact(self, name: str) -> Any:
        return self.kept.get(name)

    async def learn(self, name: str, value: Any) -> None:
        if self.fault:
            raise self.fault
        self.kept[name] = value

    @property
    def head(self) -> Head | None:
        return Head(**self.kept[FACT]) if FACT in self.kept else None


async def write(config: Config, *entries: AuditEntry, facts: Facts | None = None, at: float = START) -> None:
    async with open_audit(config, SteppedClock(at), facts) as audit:
        for entry in entries:
            audit.record(entry)


def checked(config: Config, facts: Facts | None = None) -> Verified:
    return verify_audit(audit_path(config), facts.head if facts else None)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(state_dir=tmp_path / "state")


async def test_the_chain_goes_on_over_restarts_and_rotated_files_and_the_oldest_may_go(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for number in range(40):
        audit = Audit(path, AuditSettings(files=2), SteppedClock())
        audit._files._most = 2_000
        audit.record(replace(SAID, object=f"tool{number}"))
        await audit.flush()
    lines = list(read_audit(path))
    assert len({file.name for file in tmp_path.glob("audit.jsonl*")}) == 3  # noqa: ASYNC240  # three names
    assert [line["n"] for line in lines] == list(range(lines[0]["n"], 41)) and lines[0]["n"] > 1
    found = verify_audit(path, Head(40, digest_of(lines[-1])))
    assert (found.findings, found.lines, found.begins) == ([], len(lines), f"{path}.2:1")


async def test_a_chain_begins_behind_the_lines_of_an_older_version(config: Config) -> None:
    path = audit_path(config)
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"at":"x","action":"tool.use","object":"read"}\n{"torn\n{"at":"x","action":"a","object":"b"}\n')
    await write(config, SAID)
    found = checked(config)
    assert (found.findings, found.lines, found.begins, found.unchained) == ([], 1, f"{path}:4", 3)
    assert [line["object"] for line in read_audit(path)] == ["read", "b", "exec"]


async def test_a_line_that_a_crash_cut_is_named_by_the_next_one(config: Config) -> None:
    path = audit_path(config)
    await write(config, SAID, SAID)
    with path.open("ab") as file:
        file.write(b'{"n":3,"prev":"')
    assert (checked(config).findings, checked(config).torn) == ([], [f"{path}:3"])
    await write(config, SAID)
    found = checked(config)
    assert (found.findings, found.lines, found.torn) == ([], 3, [f"{path}:3"])
    path.write_bytes(path.read_bytes().replace(b'{"n":3,"prev":"\n', b'{"n":3,"prev":!\n'))
    assert [finding.place for finding in checked(config).findings] == [f"{path}:3"]


def append_many(path: Path, name: str) -> None:
    files = ChainedFiles(path, 20_000, 100)
    for number in range(100):
        files.append([{"at": "x", "action": "a", "object": f"{name}{number}"}])


async def test_processes_that_write_at_once_make_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    others = [multiprocessing.get_context("fork").Process(target=append_many, args=(path, name)) for name in "ab"]
    for other in others:
        other.start()
    await asyncio.to_thread(append_many, path, "c")
    for other in others:
        await asyncio.to_thread(other.join)
    found = verify_audit(path, None)
    assert (found.findings, found.lines) == ([], 300)


async def test_the_database_knows_the_last_line_seconds_later_and_at_the_end(config: Config) -> None:
    facts, clock = Facts(), SteppedClock()
    async with open_audit(config, clock, facts) as audit:
        audit.record(SAID)
        audit.record(SAID)
        await eventually(lambda: clock.sleepers == 1)
        assert FACT not in facts.kept and checked(config, facts).lines == 2
        clock.advance(5)
        await eventually(lambda: facts.head is not None)
        assert facts.head and facts.head.number == 2
        audit.record(SAID)
    assert facts.head.number == 3 and checked(config, facts).newer == 0


async def test_a_database_that_takes_nothing_ends_nothing_and_is_told_later(config: Config) -> None:
    facts, clock = Facts(), SteppedClock()
    facts.fault = DiskError("the disk is full", DiskFault.FULL)
    async with open_audit(config, clock, facts) as audit:
        audit.record(SAID)
        await eventually(lambda: clock.sleepers == 1)
        clock.advance(5)
        await eventually(lambda: clock.sleepers == 1)
        facts.fault = None
        clock.advance(5)
        await eventually(lambda: facts.head is not None)
    assert checked(config, facts).findings == []


async def test_after_a_kill_the_files_are_ahead_of_the_database_and_that_is_no_fault(config: Config) -> None:
    facts = Facts()
    await write(config, SAID, SAID, facts=facts)
    await write(config, SAID)  # as a daemon that was killed before it told the database
    found = checked(config, facts)
    assert (found.findings, found.newer) == ([], 1)
    await write(config, facts=facts)
    assert facts.head and facts.head.number == 3


@pytest.mark.parametrize("left", [1, 0])
async def test_lines_that_were_cut_off_stay_a_fault_when_the_daemon_goes_on(
    config: Config, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    facts, path = Facts(), audit_path(config)
    await write(config, SAID, SAID, SAID, facts=facts)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:left]))
    await write(config, SAID, facts=facts)
    await write(config, SAID, facts=facts)
    (found,) = checked(config, facts).findings
    assert found.place == f"{path}:{left + 1}" and f"{left + 1} to 3 of the chain are missing before" in found.text
    assert [line["action"] for line in read_audit(path)][left:] == ["audit.broken", "tool.use", "tool.use"]
    assert "was changed or cut off" in caplog.text


async def test_an_end_that_was_exchanged_stays_a_fault(config: Config) -> None:
    facts, path = Facts(), audit_path(config)
    await write(config, SAID, replace(SAID, allowed=False), facts=facts)
    path.write_bytes(path.read_bytes().replace(b'"allowed":false', b'"allowed":true'))
    await write(config, SAID, facts=facts)
    (found,) = checked(config, facts).findings
    assert found.place == f"{path}:2"


@pytest.mark.promise("P-forgotten")
async def test_words_of_a_conversation_are_blanked_and_the_chain_holds(config: Config) -> None:
    facts, path = Facts(), audit_path(config)
    place = AuditEntry("exec.connect", "pomegranate.example:443", ANN, "telegram:5", result="ok")
    failed = replace(SAID, where="telegram:6", result="not run: orange", detail="")
    async with open_audit(config, SteppedClock(), facts) as audit:
        for entry in (SAID, place, failed):
            audit.record(entry)
        await audit.flush()
        assert await audit.blank(Blanking(frozenset({"telegram:5"})))
        assert await audit.blank(Blanking(frozenset({"telegram:5"})))
        audit.record(SAID)
    text, lines = path.read_text(), list(read_audit(path))
    assert text.count("pomegranate") == 1 and "orange" in text and not list(path.parent.glob("*.tmp"))
    assert (lines[0]["object"], lines[0]["result"], lines[0]["where"]) == ("exec", "ok", "telegram:5")
    assert "object" not in lines[1] and "salt" not in lines[0] and len(lines[0]["said"]) == 64
    found = checked(config, facts)
    assert (found.findings, found.lines, found.blanked) == ([], 4, 2)


@pytest.mark.promise("P-forgotten")
async def test_words_that_are_older_than_wanted_are_blanked_in_every_file(config: Config) -> None:
    path = audit_path(config)
    path.parent.mkdir(parents=True)
    old = {"at": "2024-01-01T00:00:00.000+00:00", "action": "tool.use", "object": "exec", "detail": "pomegranate"}
    path.write_bytes(orjson.dumps(old) + b"\n" + orjson.dumps(old)[:-5])
    await write(config, SAID, at=START - 10)
    path.rename(path.with_name("audit.jsonl.1"))
    await write(config, SAID, at=START - 5)
    await write(config, SAID, at=START)
    async with open_audit(config, SteppedClock()) as audit:
        await audit.blank(Blanking(before=START))
    assert [("detail" in line, "said" in line) for line in read_audit(path)] == [
        (False, False),
        (False, True),
        (False, True),
        (True, False),
    ]
    assert sum(file.read_text().count("pomegranate") for file in path.parent.iterdir()) == 1
    assert (checked(config).findings, checked(config).blanked) == ([], 2)


async def test_short_words_cannot_be_guessed_from_their_hash(config: Config) -> None:
    await write(config, SAID, SAID)
    async with open_audit(config, SteppedClock()) as audit:
        await audit.blank(Blanking(frozenset({"telegram:5"})))
    first, second = read_audit(audit_path(config))
    assert first["said"] != second["said"]


async def test_a_blanking_that_was_killed_leaves_no_words_beside(config: Config) -> None:
    await write(config, SAID)
    left = audit_path(config).with_name("audit.tmp")
    left.write_text("pomegranate")
    async with open_audit(config, SteppedClock()) as audit:
        assert await audit.blank(Blanking(frozenset({"telegram:6"})))
    assert not left.exists()


@pytest.mark.promise("P-forgotten")
def test_lines_since_a_session_was_forgotten_are_kept() -> None:
    wanted = Blanking(forgotten={"telegram:5": 5.0, 'tui:"a\\': 5.0})

    def wants(where: str, at: float) -> bool:
        return wanted.wants(orjson.dumps({"at": moment(at), "where": where, "detail": '"where":"telegram:5"'}))

    assert wants("telegram:5", 4.999) and wants("telegram:5", 5.0) and wants('tui:"a\\', 1.0)
    assert not wants("telegram:5", 5.001) and not wants("telegram:55", 1.0) and not wants("", 1.0)
    assert not wanted.wants(b'{"at":"1970","where":"\\u1","detail"'), "a damaged line"


async def test_lines_are_found_in_whichever_file_they_are_by_now(tmp_path: Path) -> None:
    files = ChainedFiles(tmp_path / "audit.jsonl", 300, 2)
    lines = [line for number in range(12) for line in files.append([{"at": moment(number), "action": "a"}])]
    entries = [orjson.loads(line) for line in lines]
    known = {entry["n"]: digest_of(entry) for entry in entries}
    left, lowest = lacking(tmp_path / "audit.jsonl", known)
    assert lowest > 1 and left == set(range(1, lowest)), "the oldest file has gone"
    assert lacking(tmp_path / "audit.jsonl", {12: known[11], 13: known[12]}) == ({12, 13}, lowest)

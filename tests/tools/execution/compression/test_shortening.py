"""What holds for every family, whatever a command says."""

import logging
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.compressing import Recording, recordings
from goclaw.tools.execution.compression import shortening
from goclaw.tools.execution.compression.base import Shown, Words
from goclaw.tools.execution.compression.shortening import FAMILIES, Short, shorten
from tests.lanes import repeats

COMMANDS = (
    *(
        "ls -la",
        "ls -lht",
        "git status",
        "git diff",
        "git log",
        "git log -p",
        "cat file",
        "tail file",
        "head -n 9 file",
    ),
    *("grep -rn x", "grep -r x", "grep -n x file", "rg x", "pytest", "pytest -v -s", "go test ./...", "go test -v"),
)
LINES = sorted({line for each in recordings() for line in each.output.splitlines()[:60]})
"""Lines that the families know, in an order in which no command says them."""
BAD = ("error: no", "fatal: bad", "warning: old", "Traceback (most recent call last):", "FAILED a::b", "panic: x")


@st.composite
def outputs(draw: st.DrawFn) -> list[str]:
    """Known lines, unknown ones, and repetitions."""
    word = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=40)
    bad = st.builds("{}{}{}".format, word, st.sampled_from(BAD), word)
    line = st.one_of(st.sampled_from(LINES), word, bad, st.just("     said"), st.just(""))
    runs = draw(st.lists(st.tuples(line, st.integers(1, 12)), max_size=25))
    return [each for each, count in runs for _ in range(count)]


@pytest.mark.deep
@given(outputs(), st.sampled_from(COMMANDS), st.sampled_from([0, 1]))
@settings(max_examples=repeats(60, 500), deadline=None)
def test_nothing_about_errors_is_lost_and_nothing_gets_longer(lines: list[str], command: str, code: int) -> None:
    text = "".join(f"{line}\n" for line in lines)
    short = shorten(text, command.split(), code)
    if short is None:
        return
    assert len(short.text) < len(text)
    for line in lines:
        if any(bad in line for bad in BAD):
            start = min(at for bad in BAD if (at := line.find(bad)) >= 0)
            found = line[start:].rstrip(" =_-\t\r")
            # `grep` and `rg` say the name of a file above its lines.
            pieces = found.split(":") if command.startswith(("grep", "rg")) else [found]
            assert [piece for piece in pieces if piece not in short.text] == []
    again = shorten(short.text, command.split(), code)
    assert again is None or len(again.text) < len(short.text)


@pytest.mark.deep
@given(outputs(), st.sampled_from(COMMANDS))
@settings(max_examples=repeats(60, 500), deadline=None)
def test_no_family_loses_such_a_line_by_itself(lines: list[str], command: str) -> None:
    """`shorten` looks again, but nothing should ever be found."""
    found = shortening.family_of(command.split())
    assert found
    shown = found[0].compress(lines, found[1])
    text = "\n".join(lines if shown is None else shown.lines)
    assert [line for line in lines if found[0].essence(line) not in text] == []


@pytest.mark.deep
@given(
    st.lists(st.from_regex(r"[~|]{2}[ -~]{0,30}", fullmatch=True), unique=True, max_size=10),
    st.sampled_from(["ls -la", "git status", "git log", "git diff", "pytest", "go test", "grep -rn x"]),
)
@settings(max_examples=repeats(40, 300), deadline=None)
def test_unknown_lines_survive(unknown: list[str], command: str) -> None:
    found = shortening.family_of(command.split())
    assert found
    shown = found[0].compress(unknown, found[1])
    assert shown is None or [line for line in shown.lines if line in unknown] == unknown


@pytest.mark.parametrize("recording", recordings(), ids=lambda each: each.command)
def test_recorded_outputs_keep_what_failed_and_why(recording: Recording) -> None:
    short = recording.compressed()

    assert short or recording.family == "cat"
    for line in recording.output.splitlines():
        if short and line.startswith(("E  ", ">  ", "FAILED", "--- FAIL", "panic", "+", "@@")):
            assert line in short.text


@pytest.mark.parametrize(
    ("command", "code"),
    [("ls -la", 2), ("git status", 128), ("grep -rn x", 2), ("pytest", 2), ("pytest", 137), ("make", 0), ("", 0)],
)
def test_failures_and_other_commands_are_left_alone(command: str, code: int) -> None:
    assert shorten("drwxr-xr-x  3 anna staff  4096 Nov 21 20:22 sub\n" * 50, command.split(), code) is None


def test_a_little_saved_is_nothing_saved() -> None:
    assert shorten("drwxr-xr-x 3 anna staff 4096 Nov 21 20:22 sub\n", ["ls", "-l"], 0) is None


def _broken(lines: object, words: Words) -> Shown | None:
    raise RecursionError("too deep")


def _careless(lines: object, words: Words) -> Shown | None:
    return Shown(["all well"], left_out=False)


def test_a_family_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(shortening, "FAMILIES", {"ls": replace(FAMILIES["ls"], compress=_broken)})

    assert shorten("x\n" * 100, ["ls"], 0) is None
    assert "could not be compressed" in caplog.text


def test_a_family_that_hides_an_error_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shortening, "FAMILIES", {"ls": replace(FAMILIES["ls"], compress=_careless)})
    caplog.set_level(logging.WARNING)

    assert shorten("x\n" * 100, ["ls"], 0) == Short("all well\n", "names only", left_out=False)
    assert shorten("x\n" * 100 + "ls: Error 5\n", ["ls"], 0) is None
    assert "a line about an error would have gone" in caplog.text


def test_no_line_takes_long() -> None:
    """All of these together take seconds: with one pattern that looks at a line from each of its places, minutes."""
    for piece in ("1", " ", "a:", "-1-", ": 1", "_ ", "= ", "    ", "M\t", "a/src/testing/", "x "):
        text = f"{piece * (100_000 // len(piece))}\n" * 2 + f"{piece * 200}\n" * 200
        for command in COMMANDS:
            shorten(text, command.split(), 0)

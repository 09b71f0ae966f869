"""Tools that look around: whatever is exchanged or named, they tell nothing of what is not the person's."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from goclaw.testing import Bench, open_bench
from goclaw.tools.builtin import ripgrep
from goclaw.tools.builtin.search import search
from goclaw.tools.execution.sandbox.confined_program import can_confine, running_confined
from tests.tables import table
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import ANNA, Surroundings
from tests.tools.builtin.test_builtin_files import TOOLS

__all__ = ["around"]

SECRET = "sk-canary-of-a-search"
OPTIONS = ["--pre=/bin/sh", "-f/etc/passwd", "--files", "--follow", "-L", "--hostname-bin=/bin/sh", "-z", "--", "-"]
"""What ripgrep would take for an option."""
HEAVY = ["(a+)+$", "(.*a){40}$", "(\\w+\\s?)+!$"]
"""Expressions that a backtracking engine does not come back from."""


@pytest.fixture(params=["walks", "gets the texts"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of ripgrep, with Landlock and without it."""
    if request.param == "gets the texts":
        monkeypatch.setattr(ripgrep, "can_confine", lambda: False)
    elif not can_confine():
        pytest.skip("the kernel has no Landlock")
    return str(request.param)


def exchange(bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, goal: Path) -> None:
    """While ripgrep runs, the folder `name` is a symbolic link to `goal`: what a command beside the search can do."""
    real, folder, kept, running = running_confined, bench.folder / name, bench.folder / "kept", [0]

    @asynccontextmanager
    async def racing(argv: Sequence[str], root: Path, readable: Sequence[str]) -> AsyncIterator[Any]:
        if not running[0]:
            folder.rename(kept)
            folder.symlink_to(goal)
        running[0] += 1
        try:
            async with real(argv, root, readable) as sink:
                yield sink
        finally:
            running[0] -= 1
            if not running[0]:
                folder.unlink()
                kept.rename(folder)

    monkeypatch.setattr(ripgrep, "running_confined", racing)


@pytest.mark.skipif(not can_confine(), reason="the kernel has no Landlock")
@pytest.mark.promise("P-paths-inside")
async def test_a_folder_exchanged_for_a_link_tells_nothing_of_what_is_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even how often something stands there: one could ask for a secret letter by letter."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "token").write_text(f"\n\n{SECRET}\n")
    async with open_bench(tmp_path, search) as bench:
        (bench.folder / "sub").mkdir()
        # Lines of the decoy match as well: that it is found at all would tell that the secret matches.
        (bench.folder / "sub" / "token").write_text("1\n2\n3\n")
        exchange(bench, monkeypatch, "sub", secrets)
        guesses = [f"^{SECRET[:8]}", "^no-such-secret", "."]
        told = [(await bench.call("search", {"pattern": guess, "path": "sub"})).content for guess in guesses]
    assert told == [f"nothing matches {guess}" for guess in guesses]


@pytest.mark.promise("P-memory-own-notes")
async def test_a_search_finds_nothing_of_others_by_any_name(around: Surroundings) -> None:
    around.write("memory/users/telegram:9/n.md", f"{SECRET}\n")
    around.write(f"memory/users/{ANNA.key}/n.md", f"{SECRET} of mine\n")
    around.write("memory/shared.md", f"{SECRET} of all\n")
    root = around.the_workspace.root
    (root / "link.md").symlink_to(around.the_workspace.on_disk("memory/users/telegram:9/n.md"))
    (root / "folder").symlink_to(around.the_workspace.on_disk("memory/users/telegram:9"))
    (root / "memory/users").mkdir()
    (root / "memory/users/planted.md").write_text(f"{SECRET} of a command\n")
    around.the_workspace = around.the_workspace.seen_by(ANNA.key)
    mine, shared = f"memory/users/{ANNA.key}/n.md", "memory/shared.md"
    for path, wanted in ((".", {mine, shared}), ("memory", {mine, shared}), ("memory/users", {mine})):
        for ignored in (False, True):
            said = await around.call(search, {"pattern": SECRET, "path": path, "include_ignored": ignored})
            assert {path for path in (mine, shared) if path in said} == wanted
            assert said.count(SECRET) == len(wanted), said
    around.the_workspace = around.the_workspace.seen_by("")
    said = await around.call(search, {"pattern": SECRET})
    assert shared in said and said.count(SECRET) == 1


@pytest.mark.skipif(not can_confine(), reason="the kernel has no Landlock")
async def test_what_is_confined_reads_nothing_else_and_the_daemon_still_does(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("inside")
    (tmp_path / "out").write_text(SECRET)
    (tmp_path / "link").symlink_to("out")
    script = "cat in/a; cat out link /etc/passwd; echo x > in/a; echo over"
    folders = [str(tmp_path / each) for each in ("in", "link", "gone")]
    for _ in range(2):  # the thread that gave it all up serves nobody else
        async with running_confined(["/bin/sh", "-c", script], tmp_path, folders) as sink, asyncio.timeout(20):
            assert (await sink.read()) == b"insideover\n"
    assert await asyncio.to_thread((tmp_path / "out").read_text) == SECRET
    assert (tmp_path / "in" / "a").read_text() == "inside"


@pytest.mark.skipif(not can_confine(), reason="the kernel has no Landlock")
async def test_what_is_confined_ends_with_whoever_reads_it(tmp_path: Path) -> None:
    async with asyncio.timeout(20), running_confined(["/bin/sleep", "600"], tmp_path, []) as sink:
        assert not sink.at_eof()
    with pytest.raises(OSError, match="No such file"):
        async with running_confined(["/no/such/program"], tmp_path, []):
            pass


@table("option", OPTIONS)
async def test_no_argument_becomes_an_option(option: str, way: str, tmp_path: Path) -> None:
    async with open_bench(tmp_path, *TOOLS) as bench:
        (bench.folder / "a.txt").write_text(f"here is {option} as it is\n")
        (bench.folder / option.replace("/", "_")).write_text("needle\n")
        found = await bench.call("search", {"pattern": option.replace("(", "\\(")})
        others = [
            await bench.call("search", {"pattern": "needle", "glob": option}),
            await bench.call("search", {"pattern": "needle", "exclude": [option]}),
            await bench.call("search", {"pattern": "needle", "path": option.replace("/", "_")}),
            await bench.call("glob", {"pattern": option}),
        ]
    assert "a.txt (1 matching line)" in found.content
    assert not [each.content for each in others if "root:" in each.content or "failed unexpectedly" in each.content]
    assert "(1 matching line)" in others[2].content, "a name is a name"


@pytest.mark.parametrize("pattern", HEAVY)
async def test_an_expression_that_takes_for_ever_takes_its_time_and_no_more(
    pattern: str, way: str, tmp_path: Path
) -> None:
    async with open_bench(tmp_path, search, tools={"search": {"timeout": 1}}) as bench:
        (bench.folder / "a.txt").write_text("a" * 5_000 + "\n")
        async with asyncio.timeout(10):
            result = await bench.call("search", {"pattern": pattern})
    assert result.is_error or "matching line" in result.content or "nothing matches" in result.content


async def test_names_that_steer_a_terminal_are_shown_as_what_they_are(way: str, tmp_path: Path) -> None:
    names = ["\x1b[2Ja.txt", "b\u202etxt.exe", "c\nd.txt", "e\udcff.txt"]
    async with open_bench(tmp_path, *TOOLS) as bench:
        for name in names:
            (bench.folder / os.fsencode(name).decode(errors="surrogateescape")).write_text("needle\n")
        results = [
            await bench.call("glob", {"pattern": "*"}),
            await bench.call("list", {}),
            await bench.call("search", {"pattern": "needle"}),
        ]
    for result in results:
        assert not result.is_error, result.content
        assert not set(result.content) & {"\x1b", "\u202e", "\udcff"}
        assert result.content.encode()


async def test_settings_of_ripgrep_in_the_workspace_or_the_environment_change_nothing(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rc").write_text("--pre=/bin/false\n--max-count=0\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
    async with open_bench(tmp_path, search) as bench:
        for name in (".ignore", ".rgignore"):
            (bench.folder / name).write_text("*\n!.*\n")
        (bench.folder / "a.txt").write_text("needle\n")
        assert "a.txt (1 matching line)" in (await bench.call("search", {"pattern": "needle"})).content

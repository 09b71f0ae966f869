"""`exec` and tools from the configuration with compression: real commands, contained."""

import re
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.config.tools import CliToolSettings
from goclaw.errors import DiskError, DiskFault
from goclaw.extensions.ssh.ssh_exec import ssh_exec
from goclaw.tools.builtin.cli_source import cli_tool
from goclaw.tools.builtin.exec import exec_
from goclaw.tools.builtin.read import read
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.toolkit.arguments import validate
from goclaw.tools.toolkit.base import Tool
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings
from tests.tools.builtin.shell_support import ssh_server
from tests.tools.execution.sandbox.conftest import sandbox

__all__ = ["around", "sandbox"]

pytestmark = pytest.mark.sandbox

_WHOLE = re.compile(r"output:[0-9a-f]{16}")


@pytest.fixture
def ready(around: Surroundings, sandbox: Sandbox) -> Surroundings:
    around.sandbox = sandbox
    for number in range(12):
        around.write(f"folder/file-{number:02}.txt", "found it here\nand found it there\n")
    return around


async def run(around: Surroundings, tool: Tool, given: dict[str, Any], *, compress: bool = True) -> str:
    context = replace(around.context(), compress=compress)
    return tool.result.text(tool.result.checked(await tool.call(context, validate(tool.arguments, given))))


async def test_a_listing_is_names_and_the_whole_can_be_read(ready: Surroundings) -> None:
    said = await run(ready, exec_, {"command": "cd folder && ls -la"})

    note, *names, code = said.splitlines()
    whole = _WHOLE.search(note)
    assert whole
    assert note == f"[compressed: names only; for the whole read {whole[0]}]"
    assert names == [f"file-{number:02}.txt" for number in range(12)]
    assert code == "exit code: 0"
    assert "-rw" in await ready.call(read, {"path": whole[0]})


@pytest.mark.parametrize(
    "command",
    ["cd folder; ls -la", "LC_ALL=C ls -la folder", "export A=$HOME && ls -la folder", "ls -la folder | tail -n +4"],
)
async def test_a_listing_is_shortened_whatever_stands_around_it(command: str, ready: Surroundings) -> None:
    names = "".join(f"file-{number:02}.txt\n" for number in range(12))
    assert names in await run(ready, exec_, {"command": command})


@pytest.mark.parametrize("lines", [1, 3])
async def test_a_listing_of_which_nothing_would_be_left_stays(lines: int, ready: Surroundings) -> None:
    command = f"ls -la folder | head -{lines}"
    plain = await run(ready, exec_, {"command": command}, compress=False)
    assert await run(ready, exec_, {"command": command}) == plain and plain.startswith("total ")


async def test_the_end_of_a_file_is_not_numbered_from_its_beginning(ready: Surroundings) -> None:
    ready.write("log.txt", "begin\n" * 9 + "a long line that comes again and again\n" * 20)
    said = await run(ready, exec_, {"command": "cat log.txt | tail -12"})
    assert said.splitlines()[1:3] == ["a long line that comes again and again", "[the same 11 more times]"]


async def test_without_compression_everything_is_as_it_was(ready: Surroundings) -> None:
    said = await run(ready, exec_, {"command": "ls -la folder"}, compress=False)

    assert said.startswith("total ")
    assert "compressed" not in said
    assert said.endswith("exit code: 0")


async def test_where_nothing_is_left_out_nothing_is_kept(ready: Surroundings) -> None:
    said = await run(ready, exec_, {"command": "grep -rn found folder | sort | grep -rn found folder"})

    assert said.startswith("[compressed: grouped by file]\nfolder/")
    assert "\n 1:found it here\n 2:and found it there\n" in said
    assert said.endswith("\nexit code: 0")
    assert not list((ready.config.state_dir / "spills").iterdir())


@pytest.mark.parametrize(
    "command",
    [
        "ls -la folder missing",
        "ls -la folder; pwd",
        "ls -la folder | sort",
        "ls -la folder > x; cat x",
        "X=-la; ls $X folder",
    ],
)
async def test_failures_and_unclear_lines_are_shown_as_they_are(command: str, ready: Surroundings) -> None:
    plain = await run(ready, exec_, {"command": command}, compress=False)

    assert await run(ready, exec_, {"command": command}) == plain
    assert "compressed" not in plain


async def test_an_error_among_what_is_known_stays(ready: Surroundings) -> None:
    line = "sh -c 'exit 3'; ls -la folder"
    assert "exit code: 0" in await run(ready, exec_, {"command": line})

    said = await run(ready, exec_, {"command": "ls -la folder missing 2>&1 | cat"})

    assert said.startswith("[compressed: names only")
    assert "ls: cannot access 'missing': No such file or directory\n" in said
    assert said.endswith("exit code: 0")


async def test_real_git_is_compressed(ready: Surroundings) -> None:
    begin = "git init -q -b main . && git config user.email a@example.org && git config user.name Anna"
    assert (await run(ready, exec_, {"command": begin})).endswith("exit code: 0")
    commits = 'for i in 1 2 3 4 5 6 7; do echo $i > n && git add n && git commit -qm "Count to $i"; done'
    assert (await run(ready, exec_, {"command": commits})).endswith("exit code: 0")
    ready.write("n", "8\n")

    status = await run(ready, exec_, {"command": "git status"})
    log = await run(ready, exec_, {"command": "git log"})

    assert status.startswith("[compressed: as git status --short]\nOn branch main\n M n\n?? folder/\n")
    assert log.splitlines()[1].startswith("Anna, ")
    assert [line.partition(" ")[2] for line in log.splitlines()[3:-1]] == [
        f"Count to {number}" for number in range(6, 0, -1)
    ]


async def test_a_long_output_is_compressed_before_it_is_cut(ready: Surroundings) -> None:
    ready.config = Config.model_validate(
        {"state_dir": ready.config.state_dir, "tools": {"exec": {"output_limit": 1000}}}
    )
    await run(ready, exec_, {"command": "touch $(seq -f folder/another-%g 40)"})

    plain = await run(ready, exec_, {"command": "ls -l folder"}, compress=False)
    said = await run(ready, exec_, {"command": "ls -l folder"})

    assert "\n[output cut: " in plain
    assert said.startswith("[compressed: names only; for the whole read output:")
    assert len(said.splitlines()) == 52 + 2
    whole = _WHOLE.search(said)
    assert whole
    assert "total" in await ready.call(read, {"path": whole[0]})


async def test_what_is_too_long_even_then_is_cut_as_ever(ready: Surroundings) -> None:
    ready.config = Config.model_validate(
        {"state_dir": ready.config.state_dir, "tools": {"exec": {"output_limit": 1000}}}
    )
    await run(ready, exec_, {"command": "touch $(seq -f folder/another-%g 400)"})

    first, *names, code = (await run(ready, exec_, {"command": "ls -l folder"})).splitlines()

    assert first.startswith("[compressed: names only; for the whole read output:")
    (cut,) = (name for name in names if name.startswith("[output cut: "))
    names.remove(cut)
    assert names[-1] == "file-11.txt"
    assert sum(map(len, names)) < 1_000
    assert code == "exit code: 0"


async def test_a_full_disk_leaves_the_output_as_it_is(ready: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(owner: str) -> None:
        raise DiskError("the disk is full", DiskFault.FULL)

    plain = await run(ready, exec_, {"command": "ls -l folder"}, compress=False)
    monkeypatch.setattr(ready.blobs, "open_spill", full)

    assert await run(ready, exec_, {"command": "ls -l folder"}) == plain


async def test_an_output_whose_whole_is_not_kept_to_its_end_is_left_as_it_is(
    ready: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = await run(ready, exec_, {"command": "ls -l folder"}, compress=False)
    monkeypatch.setattr(ready.blobs, "open_spill", partial(ready.blobs.open_spill, bound=10))

    assert await run(ready, exec_, {"command": "ls -l folder"}) == plain


async def test_no_half_secret_is_left_of_a_cut_line(ready: Surroundings) -> None:
    secret = "sk-" + "abcdefgh" * 6
    ready.write("keys", f"found {'x' * 180} {secret} {'y' * 200}\n" * 5)

    said = await run(ready, exec_, {"command": "grep -n found keys"})

    assert said.startswith("[compressed")
    assert "sk-a" not in said


async def test_tools_from_the_configuration_are_compressed_too(ready: Surroundings) -> None:
    tool = cli_tool("names", CliToolSettings(command="ls", args=("-l",), description="Lists."))

    said = await run(ready, tool, {"args": "folder"})

    assert said.startswith("[compressed: names only; for the whole read output:")
    assert said.endswith("file-11.txt\nexit code: 0")


async def test_commands_on_other_hosts_are_compressed_too(around: Surroundings, tmp_path: Path) -> None:
    for number in range(12):
        around.write(f"file-{number:02}.txt", "x")
    async with ssh_server(tmp_path / "ssh") as server:
        server.configure(around)

        command = f"ls -l {shlex.quote(str(around.the_workspace.root))}"
        said = await run(around, ssh_exec, {"host": "web1", "command": command})

    assert said.startswith("[compressed: names only; for the whole read output:")
    assert said.endswith("file-11.txt\nexit code: 0")

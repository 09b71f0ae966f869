"""Of what commands may see, the hidden folders are left out, whatever name leads to them; root's variables."""

import os
import tarfile
from pathlib import Path

import pytest

from goclaw.tools.execution.sandbox.base import Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.layout import contained_root, visible


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A folder of programs with a state folder far inside, and other names of it."""
    (tmp_path / "usr/lib/goclaw/state").mkdir(parents=True)
    (tmp_path / "usr/lib/libc.so").write_text("")
    (tmp_path / "usr/bin").mkdir()
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "etc").mkdir()
    return tmp_path


def shown(system: Path, *names: str, hidden: str) -> set[str]:
    found = visible([str(system / name) for name in names], [system / hidden])
    return {str(Path(path).relative_to(system)) for path in found}


@pytest.mark.promise("P-exec-contained")
def test_a_folder_with_something_hidden_is_shown_but_for_that(system: Path) -> None:
    found = shown(system, "usr", "bin", "lib", "etc", hidden="usr/lib/goclaw/state")
    assert found == {"usr/bin", "usr/lib/libc.so", "bin", "etc"}
    assert shown(system, "usr/lib/goclaw/state", "lib/goclaw/state", hidden="usr/lib/goclaw/state") == set()


def test_what_is_not_there_is_left_out_and_the_rest_keeps_its_name(system: Path) -> None:
    assert shown(system, "bin", "lib64", "etc", hidden="usr/lib/goclaw/none") == {"bin", "etc"}


@pytest.mark.sandbox
async def test_an_archive_of_other_users_is_unpacked(sandbox: Sandbox, tmp_path: Path) -> None:
    """Root without its powers can give files to none of them; GNU tar would try, and fail. Modes it keeps as ever."""
    with tarfile.open(tmp_path / "theirs.tar", "w") as archive:
        entry = tarfile.TarInfo("file")
        entry.uid = entry.gid = 12345
        entry.mode, entry.mtime = 0o666, 1
        archive.addfile(entry)
    line = "umask 022 && tar xf theirs.tar && stat -c '%a %Y' file"
    command = SandboxCommand(("/bin/sh", "-ec", line), tmp_path, {"PATH": "/usr/bin:/bin"})
    async with sandbox.run(command, Policy(tmp_path)) as process:
        output = b"".join([chunk async for chunk in process.output]).decode()
        assert await process.wait() == 0, output
    assert output == ("666 1\n" if os.geteuid() == 0 else "644 1\n")


@pytest.mark.parametrize(("user", "names"), [(0, {"TAR_OPTIONS"}), (1000, set())])
def test_only_root_needs_other_variables(user: int, names: set[str]) -> None:
    assert contained_root(user).keys() == names


async def test_a_command_s_own_options_of_tar_win(sandbox: Sandbox, tmp_path: Path) -> None:
    command = SandboxCommand(("/usr/bin/env",), tmp_path, {"TAR_OPTIONS": "--verbose"})
    async with sandbox.run(command, Policy(tmp_path)) as process:
        output = b"".join([chunk async for chunk in process.output]).decode()
    assert "TAR_OPTIONS=--verbose\n" in output

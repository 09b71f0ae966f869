"""Writing: the whole new file or the whole old one, with the old one's rights, and nothing left behind."""

import asyncio
import errno
import itertools
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.workspace import Workspace
from goclaw.common.workspace.atomic import is_temporary
from goclaw.errors import ToolError
from tests.small_disk import small_disk

ACCESS_LIST = "system.posix_acl_access"
READ_FOR_USER_1 = bytes.fromhex(
    "0200000001000600ffffffff020004000100000004000000ffffffff10000400ffffffff20000000ffffffff"
)
"""acl(5) in the kernel's form: user::rw-, user:1:r--, group::---, mask::r--, other::---."""


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    (tmp_path / "work").mkdir()
    async with Workspace(tmp_path / "work") as opened:
        yield opened


def names(workspace: Workspace) -> list[str]:
    return sorted(str(path.relative_to(workspace.root)) for path in workspace.root.rglob("*"))


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1777, 0o7777])
async def test_no_special_right_outlives_a_new_content(mode: int, workspace: Workspace) -> None:
    (workspace.root / "tool").write_text("old")
    (workspace.root / "tool").chmod(mode)
    await workspace.write_bytes("tool", b"new")
    assert stat.S_IMODE((workspace.root / "tool").stat().st_mode) == mode & 0o777


@pytest.mark.parametrize(("umask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
async def test_a_new_file_has_the_rights_that_the_umask_leaves(umask: int, expected: int, workspace: Workspace) -> None:
    before = os.umask(umask)
    try:
        await workspace.write_bytes("new", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((workspace.root / "new").stat().st_mode) == expected


async def test_access_lists_and_attributes_of_the_user_are_kept(workspace: Workspace) -> None:
    target = workspace.root / "file"
    target.write_text("old")
    try:
        os.setxattr(target, ACCESS_LIST, READ_FOR_USER_1)
        os.setxattr(target, "user.origin", b"here")
    except OSError as error:
        pytest.skip(f"this file system has none: {error.strerror}")
    await workspace.write_bytes("file", b"new")
    assert os.getxattr(target, ACCESS_LIST) == READ_FOR_USER_1
    assert os.getxattr(target, "user.origin") == b"here"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_the_owner_is_kept_and_capabilities_are_not(workspace: Workspace) -> None:
    target = workspace.root / "file"
    target.write_text("old")
    os.chown(target, 1, 2)
    os.setxattr(target, "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
    await workspace.write_bytes("file", b"new")
    assert (target.stat().st_uid, target.stat().st_gid) == (1, 2)
    assert "security.capability" not in os.listxattr(target)


async def test_a_full_disk_leaves_the_old_file_whole_and_nothing_else(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        async with Workspace(disk.folder) as workspace:
            await workspace.write_bytes("old", b"whole")
            disk.fill()
            for path in ("old", "new", "deep/er/new"):
                with pytest.raises(ToolError, match=f"^no space left for {path}$"):
                    await workspace.write_bytes(path, b"x" * 100_000)
            assert names(workspace) == ["ballast", "old"]
            assert await workspace.read_bytes("old") == b"whole"
            disk.make_room()
            await workspace.write_bytes("old", b"x" * 100_000)


@pytest.mark.parametrize("call", ["write", "fsync", "link", "replace", "fchmod"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
async def test_whatever_fails_on_the_way_nothing_is_half_done(
    call: str, number: int, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    await workspace.write_bytes("old", b"whole")

    def fail(*given: Any, **options: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with pytest.raises(ToolError):
            await workspace.write_bytes("old", b"new")
        if call != "fchmod":
            with pytest.raises(ToolError):
                await workspace.write_bytes("a/b/new", b"new")
    assert names(workspace) == ["old"]
    assert (workspace.root / "old").read_bytes() == b"whole"


async def test_a_file_system_without_nameless_files_serves_as_well(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "O_TMPFILE", os.O_PATH | os.O_DIRECTORY | os.O_WRONLY)
    monkeypatch.setattr(os, "write", _refusing_once(os.write))
    await workspace.write_bytes("file", b"one")
    await workspace.write_bytes("file", b"two")
    assert await workspace.add_bytes("kept", b"x") == "kept"
    assert names(workspace) == ["file", "kept"]
    assert await workspace.read_bytes("file") == b"two"


def _refusing_once(write: Any) -> Any:
    def refuse(descriptor: int, data: bytes) -> int:
        if Path(f"/proc/self/fd/{descriptor}").readlink().suffix == ".tmp":
            return int(write(descriptor, data))
        raise OSError(errno.EOPNOTSUPP, "no nameless files here")

    return refuse


async def test_of_two_who_edit_one_file_one_is_told(workspace: Workspace) -> None:
    await workspace.write_bytes("file", b"0")
    done: list[object] = []
    for _ in range(20):
        version = (await workspace.stat("file")).version
        tries = [workspace.write_bytes("file", str(n).encode() * 9, unless_changed=version) for n in range(8)]
        done = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(isinstance(one, BaseException) for one in done) == 7
    assert {str(one) for one in done if isinstance(one, ToolError)} == {"the file changed since it was read: file"}


async def test_what_is_removed_meanwhile_is_no_longer_what_was_read(workspace: Workspace) -> None:
    await workspace.write_bytes("file", b"one")
    version = (await workspace.stat("file")).version
    (workspace.root / "file").unlink()
    with pytest.raises(ToolError, match="the file changed since it was read: file"):
        await workspace.write_bytes("file", b"two", unless_changed=version)
    assert names(workspace) == []


async def _changes(workspace: Workspace) -> None:
    before = (await workspace.stat("file")).version
    async with asyncio.timeout(30):
        for _ in itertools.count():  # each look takes a way through a thread
            if (await workspace.stat("file")).version != before:
                return


WRITER = """
import asyncio, sys
from pathlib import Path
from goclaw.common.workspace import Workspace

async def main():
    async with Workspace(Path(sys.argv[1])) as workspace:
        for number in range(10**9):
            await workspace.write_bytes("file", bytes([65 + number % 26]) * 300_000)

asyncio.run(main())
"""


async def test_a_kill_in_the_middle_leaves_a_whole_file_and_nothing_to_be_seen(workspace: Workspace) -> None:
    await workspace.write_bytes("file", b"A" * 300_000)
    for _ in range(8):
        writer = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, workspace.root)
        try:
            await _changes(workspace)
        finally:
            writer.kill()
            await writer.wait()
        content = await workspace.read_bytes("file")
        assert len(content) == 300_000 and len(set(content)) == 1
        assert await workspace.paths() == ["file"]
        assert all(name == "file" or is_temporary(name) for name in names(workspace))

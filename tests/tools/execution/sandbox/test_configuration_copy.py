"""Commands in bubblewrap see the machine's configuration files as they are when they start, and no others."""

import os
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from goclaw.common.core.clock import RealClock
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox.base import Network, Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.bubblewrap import open_bubblewrap
from goclaw.tools.execution.sandbox.configuration_copy import ConfigurationCopy, open_configuration_copy
from goclaw.tools.execution.sandbox.layout import CONFIGURATION, NETWORK_CONFIGURATION, shell
from goclaw.tools.execution.sandbox.select import prove
from tests.tools.execution.sandbox.probes import INSIDE_PATH

PASSWD = Path("/etc/passwd").read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with a little in its /etc."""
    etc = tmp_path / "machine" / "etc"
    (etc / "ssl" / "certs").mkdir(parents=True)
    (etc / "ssl" / "private").mkdir()
    (etc / "ssl" / "private" / "host.key").write_text("secret")
    (etc / "ssl" / "certs" / "all.crt").write_text("one")
    (etc / "ssl" / "certs" / "root.pem").symlink_to("all.crt")
    (etc / "shadow").write_text("secret")
    (etc / "hosts").write_text("127.0.0.1 localhost")
    (tmp_path / "machine" / "zone").write_text("UTC")
    (etc / "localtime").symlink_to("../zone")
    return tmp_path / "machine"


@pytest.fixture
async def copies(machine: Path) -> AsyncIterator[ConfigurationCopy]:
    async with open_configuration_copy(machine) as opened:
        yield opened


async def shown(copies: ConfigurationCopy) -> dict[str, str]:
    """Every file that the next command would see, with its content."""
    async with copies.open_folder() as folder:
        assert folder is not None
        files = (path for path in folder.rglob("*") if not path.is_dir())
        return {str(path.relative_to(folder)): path.read_text() for path in files}


async def test_what_is_listed_is_copied_and_nothing_else(copies: ConfigurationCopy) -> None:
    assert await shown(copies) == {
        "hosts": "127.0.0.1 localhost",
        "localtime": "UTC",
        "ssl/certs/all.crt": "one",
        "ssl/certs/root.pem": "one",
    }


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("hosts", lambda path: path.write_text("new")),
        ("hosts", lambda path: path.unlink()),
        ("passwd", lambda path: path.write_text("new")),
        ("localtime", lambda path: (path.parent.parent / "zone").write_text("CET")),
        ("ssl/certs/all.crt", lambda path: path.write_text("two")),
        ("ssl/certs/new.crt", lambda path: path.write_text("new")),
        ("ssl/certs/root.pem", lambda path: path.unlink()),
    ],
)
async def test_a_change_is_seen_by_the_next_command(
    copies: ConfigurationCopy, machine: Path, path: str, change: Callable[[Path], object]
) -> None:
    before = await shown(copies)
    change(machine / "etc" / path)
    after = await shown(copies)
    assert after != before and after.get(path) != before.get(path)
    assert await shown(copies) == after


async def test_a_command_that_runs_keeps_what_it_has_and_nothing_is_left_of_it(
    copies: ConfigurationCopy, machine: Path
) -> None:
    async with copies.open_folder() as first:
        assert first is not None
        for content in ("two", "three"):
            (machine / "etc" / "hosts").write_text(content)
            assert (await shown(copies))["hosts"] == content
        assert (first / "hosts").read_text() == "127.0.0.1 localhost"
    (machine / "etc" / "hosts").write_text("four")
    await shown(copies)
    assert len(list(first.parent.iterdir())) == 1


async def test_where_nothing_changed_nothing_is_copied_again(copies: ConfigurationCopy) -> None:
    async with copies.open_folder() as first, copies.open_folder() as second:
        assert first == second is not None


async def test_without_room_for_a_copy_there_is_none(
    copies: ConfigurationCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    async with copies.open_folder() as folder:
        assert folder is None


@pytest.fixture
async def bubblewrap() -> AsyncIterator[Sandbox]:
    try:
        async with open_bubblewrap() as sandbox:
            await prove(sandbox, "none", RealClock())
            yield sandbox
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap does not work here: {error}")


def existing(paths: tuple[str, ...]) -> set[str]:
    return {path.split("/")[2] for path in paths if Path(path).exists()}


@pytest.mark.sandbox
@pytest.mark.promise("P-exec-contained")
@pytest.mark.parametrize("network", ["none", "host"])
async def test_inside_of_etc_is_shown_what_is_listed(bubblewrap: Sandbox, tmp_path: Path, network: Network) -> None:
    policy = Policy(tmp_path, network=network)
    listed = CONFIGURATION + (NETWORK_CONFIGURATION if network == "host" else ())
    assert set((await said(bubblewrap, "ls -A /etc", policy)).split()) == existing(listed)
    assert await said(bubblewrap, "cat /etc/passwd", policy) == PASSWD
    assert await said(bubblewrap, "cat /etc/shadow /etc/*/../shadow 2> /dev/null", policy) == ""


@pytest.mark.sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a folder in /etc")
async def test_a_workspace_in_etc_is_there_all_the_same(bubblewrap: Sandbox) -> None:
    with tempfile.TemporaryDirectory(dir="/etc", prefix="goclaw-test-") as folder:
        policy = Policy(Path(folder))
        assert await said(bubblewrap, "touch made && ls", policy) == "made\n"
        assert await said(bubblewrap, "cat /etc/passwd", policy) == PASSWD


async def said(sandbox: Sandbox, line: str, policy: Policy) -> str:
    command = SandboxCommand((shell(), "-c", line), policy.workspace, {"PATH": INSIDE_PATH})
    async with sandbox.run(command, policy) as process:
        return b"".join([chunk async for chunk in process.output]).decode()

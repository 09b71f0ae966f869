"""What a command of one user sees of the others, and how it reaches the network."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.config.schema import Config
from goclaw.common.config.tools import ExecSettings
from goclaw.common.core.clock import RealClock
from goclaw.common.core.events import Actor
from goclaw.common.net.client import LOOPBACK_ONLY
from goclaw.common.specs import Risk
from goclaw.errors import SandboxUnavailable, ToolError
from goclaw.tools.builtin.exec import exec_
from goclaw.tools.execution.sandbox import landlock
from goclaw.tools.execution.sandbox.base import Policy, Process, SandboxCommand
from goclaw.tools.execution.sandbox.broker import open_broker
from goclaw.tools.execution.sandbox.bubblewrap import open_bubblewrap
from goclaw.tools.execution.sandbox.select import open_sandbox, prove
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings
from tests.tools.execution.sandbox.filters import filters_without

__all__ = ["around"]

pytestmark = pytest.mark.sandbox

ANN, BOB = Actor("telegram:1", "telegram"), Actor("telegram:2", "telegram")


@pytest.fixture(params=[open_bubblewrap, open_broker], ids=["bubblewrap", "broker"])
async def tier(around: Surroundings, request: pytest.FixtureRequest) -> AsyncIterator[Surroundings]:
    """Surroundings with each tier in turn."""
    try:
        async with request.param() as sandbox:
            await prove(sandbox, "none", RealClock())
            around.sandbox = sandbox
            yield around
    except SandboxUnavailable as error:
        pytest.skip(f"it does not work here: {error}")


@pytest.fixture
async def shared(around: Surroundings) -> AsyncIterator[Surroundings]:
    """Surroundings with bubblewrap."""
    try:
        async with open_bubblewrap() as sandbox:
            await prove(sandbox, "none", RealClock())
            around.sandbox = sandbox
            yield around
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap does not work here: {error}")


def settings(around: Surroundings, **tools: Any) -> None:
    around.config = Config.model_validate({"state_dir": around.config.state_dir, "tools": tools})


async def run(around: Surroundings, line: str, actor: Actor) -> str:
    return await around.call(exec_, {"command": line}, actor=actor)


class Refusing:
    """A sandbox that runs nothing and remembers what was asked of it."""

    tier = "bubblewrap"
    policy: Policy

    def run(self, command: SandboxCommand, policy: Policy) -> AbstractAsyncContextManager[Process]:
        self.policy = policy
        raise SandboxUnavailable("not here")


async def test_every_command_is_asked_for_without_the_folder_of_the_daemon(around: Surroundings) -> None:
    """Wherever that lies: below `/usr`, say, which commands can read."""
    around.sandbox = asked = Refusing()
    with pytest.raises(SandboxUnavailable):
        await run(around, "true", ANN)
    assert asked.policy.hidden == (around.config.state_dir,)
    assert asked.policy.network == "none" and asked.policy.proxy is None


@pytest.mark.promise("P-exec-contained")
@pytest.mark.promise("P-memory-own-notes")
@pytest.mark.parametrize(
    "line",
    [
        "cat memory/users/telegram:1/n.md",
        "cat {notes}/telegram:1/n.md",
        "ls -R {notes}; ls memory",
        "grep -rhs secret . {state}",
        "echo x > {notes}/telegram:1/n.md",
        "ln {notes}/telegram:1/n.md mine; ln -s {notes} way; cat mine way/*/n.md",
        "mkdir -p memory/users/telegram:1; echo order > memory/users/telegram:1/n.md",
        "rm -rf memory; ln -s /tmp memory",
        "cat /proc/self/root{notes}/telegram:1/n.md; cat /proc/1/root{notes}/telegram:1/n.md",
    ],
)
async def test_no_command_sees_private_notes(tier: Surroundings, line: str) -> None:
    """Neither one's own: what a command can read, every command can."""
    for key, text in ((ANN.key, "of ann"), (BOB.key, "of bob")):
        tier.write(f"memory/users/{key}/n.md", f"secret {text}")
    notes = tier.the_workspace.on_disk("memory/users")
    said = await run(tier, f"({line.format(notes=notes, state=notes.parent)}) 2>&1; true", BOB)
    assert "of ann" not in said and "of bob" not in said
    assert not line.startswith("ls") or "telegram:" not in said
    for actor, text in ((ANN, "secret of ann"), (BOB, "secret of bob")):
        own = tier.the_workspace.seen_by(actor.key)
        assert await own.read_bytes(f"memory/users/{actor.key}/n.md") == text.encode()


@pytest.mark.promise("P-exec-contained")
async def test_a_second_name_of_a_state_file_is_refused(shared: Surroundings) -> None:
    state, root = shared.config.state_dir, shared.the_workspace.root
    (state / "secrets").mkdir()
    for name in ("users.json", "secrets/token"):
        (state / name).write_text("private")
        (root / "deep").mkdir(exist_ok=True)
        (root / "deep/mine").hardlink_to(state / name)
        with pytest.raises(ToolError, match="deep/mine is another name of a file of the daemon: remove it"):
            await run(shared, "cat deep/mine > copy", BOB)
        (root / "deep/mine").unlink()
    (state / "backup").mkdir()
    (state / "backup/users.json").hardlink_to(state / "users.json")  # elsewhere a second name harms nobody
    assert await run(shared, "ls copy", BOB) == "ls: cannot access 'copy': No such file or directory\nexit code: 2"


async def test_a_state_file_that_is_replaced_at_that_moment_stops_no_command(
    shared: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, state = Path.iterdir, shared.config.state_dir

    def with_a_name_that_is_gone(folder: Path) -> Iterator[Path]:
        yield from listed(folder)
        if folder == state:
            yield folder / "telegram-grown.json.new"

    monkeypatch.setattr(Path, "iterdir", with_a_name_that_is_gone)
    assert await run(shared, "echo done", BOB) == "done\nexit code: 0"


async def test_a_command_with_a_proxy_asks_first_and_leaves_its_places_in_the_audit_log(
    shared: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries: list[AuditEntry] = []
    monkeypatch.delenv(LOOPBACK_ONLY)  # the guard keeps this test from leaving the machine
    monkeypatch.setattr(type(shared), "audit", property(lambda self: entries.append), raising=False)
    settings(shared, exec={"network": "proxy"})
    assert shared.risk(exec_, {"command": "ls"}) == Risk.HIGH
    ask = "printf 'CONNECT 169.254.169.254:80 HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3; env | grep -ci _proxy="
    said = await run(shared, f"exec 3<>/dev/tcp/127.0.0.1/${{HTTP_PROXY##*:}}; {ask}", ANN)
    assert "403 Forbidden" in said and "the local link, where clouds keep their metadata" in said
    assert "8\nexit code: 0" in said
    [entry] = entries
    assert (entry.action, entry.object, entry.allowed) == ("exec.connect", "169.254.169.254:80", False)
    assert (entry.actor, entry.rule) == (ANN, "tools.network")


async def test_the_broker_refuses_a_proxy(around: Surroundings) -> None:
    settings(around, exec={"network": "proxy"})
    async with open_broker() as broker:
        around.sandbox = broker
        with pytest.raises(SandboxUnavailable, match="only bubblewrap makes"):
            await run(around, "echo ran > ran", ANN)
    assert not (around.the_workspace.root / "ran").exists()


async def test_no_descriptor_of_the_daemon_is_open_in_any_tier(shared: Surroundings) -> None:
    secret = os.open(shared.write("secret", "x"), os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        said = await run(shared, "ls -l /proc/self/fd | grep -v total", BOB)
    finally:
        os.close(secret)
    # Standard input, output and error, and the folder that ls itself has open.
    assert len(said.splitlines()) == 5, said
    assert "secret" not in said


async def test_a_command_that_could_not_change_a_mode_says_why_and_what_helps(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not landlock.abi():
        pytest.skip("no Landlock: the broker does not work here")
    filters_without("listened", monkeypatch)
    async with open_sandbox(ExecSettings(sandbox="broker")) as around.sandbox:
        said = await run(around, "touch x && chmod 600 x", ANN)
        assert "Operation not permitted\n[modes, owners and times of files cannot be changed" in said
        assert "to fix this, run GoClaw outside of that sandbox, or on a newer kernel]\nexit code: 1" in said
        assert await run(around, "false", ANN) == "exit code: 1"
        assert "cannot be changed" not in await run(around, "echo Operation not permitted", ANN)

"""What a command of one user sees of the others, and how it reaches the network."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from goclaw.auth.audit import AuditEntry
from goclaw.config.schema import Config
from goclaw.core.clock import RealClock
from goclaw.core.events import Actor
from goclaw.errors import SandboxUnavailable, ToolError
from goclaw.execution.sandbox.base import Policy, Process, SandboxCommand
from goclaw.execution.sandbox.broker import BROKER, open_broker
from goclaw.execution.sandbox.bubblewrap import open_bubblewrap
from goclaw.execution.sandbox.self_test import prove
from goclaw.net.client import LOOPBACK_ONLY
from goclaw.specs import Risk
from goclaw.tools.exec import exec_
from tests.tools.file_support import around
from tests.tools.memory_support import Surroundings

__all__ = ["around"]

pytestmark = pytest.mark.sandbox

ANN, BOB = Actor("telegram:1", "telegram"), Actor("telegram:2", "telegram")


@pytest.fixture
async def shared(around: Surroundings) -> AsyncIterator[Surroundings]:
    """A workspace of two people, with notes of both and of everybody."""
    for key, text in (("telegram:1", "of ann"), ("telegram:2", "of bob")):
        around.write(f"memory/users/{key}/2026.md", f"secret {text}")
    around.write("memory/2026.md", "common notes")
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
async def test_the_notes_of_others_are_invisible_and_one_s_own_are_not(shared: Surroundings) -> None:
    look = "find . | sort; cat memory/2026.md; grep -rh secret . ; echo more >> memory/users/telegram:2/2026.md"
    said = await run(shared, look, BOB)
    assert "of bob" in said and "common notes" in said
    assert "of ann" not in said and "telegram:1" not in said
    assert (shared.the_workspace.root / "memory/users/telegram:2/2026.md").read_text().endswith("more\n")
    assert (shared.the_workspace.root / "memory/users/telegram:1/2026.md").read_text() == "secret of ann"


@pytest.mark.parametrize(
    "line",
    [
        "mv memory elsewhere",
        "mv memory/users elsewhere",
        "rm -rf memory/users; ln -s ../public memory/users",
        "umount memory/users",
        "mkdir memory/users/telegram:1 && echo x > memory/users/telegram:1/2026.md",
        "echo x > memory/users/new",
        "mv memory/users/telegram:2 kept",
        "ln memory/users/telegram:1/2026.md mine",
        "cat /proc/1/roo?/$PWD/memory/users/telegram:1/2026.md",
    ],
)
async def test_the_mask_cannot_be_moved_away(shared: Surroundings, line: str) -> None:
    """What is renamed now would be open to the next command."""
    first = await run(shared, f"{line}; ls memory", BOB)
    again = await run(shared, "grep -rh secret . ; find . -name 'telegram:1'", BOB)
    assert "of ann" not in first + again
    assert "telegram:1" not in again
    assert (shared.the_workspace.root / "memory/users/telegram:1/2026.md").read_text() == "secret of ann"


async def test_whoever_has_no_notes_sees_an_empty_folder(shared: Surroundings) -> None:
    stranger = Actor("telegram:3", "telegram")
    assert await run(shared, "ls -A memory/users", stranger) == "exit code: 0"
    assert not (shared.the_workspace.root / "memory/users/telegram:3").exists()


async def test_a_link_in_place_of_the_notes_runs_nothing(shared: Surroundings) -> None:
    root = shared.the_workspace.root
    (root / "memory/users").rename(root / "public")
    (root / "memory/users").symlink_to("../public")
    with pytest.raises(SandboxUnavailable, match="is or holds a symbolic link: remove it"):
        await run(shared, "echo ran > ran", BOB)
    (root / "memory/users").unlink()
    (root / "public").rename(root / "memory/users")
    (root / "memory/users/telegram:3").symlink_to("telegram:1")
    with pytest.raises(SandboxUnavailable, match="is or holds a symbolic link: remove it"):
        await run(shared, "echo ran > ran", Actor("telegram:3", "telegram"))
    assert not (root / "ran").exists()


async def test_a_workspace_reached_by_another_name_is_masked_there_too(shared: Surroundings, tmp_path: Path) -> None:
    root = shared.the_workspace.root
    alias = tmp_path / "alias"
    alias.symlink_to(root)
    policy = Policy(alias, masked=(alias / "memory/users",), shown=(alias / "memory/users/telegram:2",))
    argv = ("/bin/sh", "-c", f"grep -rh secret {alias} {root}")
    async with shared.sandbox.run(SandboxCommand(argv, alias, {"PATH": "/usr/bin:/bin"}), policy) as process:
        said = b"".join([chunk async for chunk in process.output])
    assert said == b"secret of bob\nsecret of bob\n"


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


async def test_the_broker_says_that_it_cannot_do_that(around: Surroundings) -> None:
    assert "other users' notes in a shared workspace are open" in BROKER.describe()


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

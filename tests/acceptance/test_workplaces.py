"""Workspaces of one person each, seen from Telegram and terminals: uploads, tasks, `@`, memory, groups, `/whoami`."""

from pathlib import Path

import pytest
import pytest_asyncio

from goclaw.clients.tui.client import attach
from goclaw.common.core.wire import AskFiles, FilesReply
from tests.acceptance.daemon import Installation
from tests.acceptance.shared import Person, SharedDaemon
from tests.acceptance.waiting import PATIENCE, clock, eventually

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

OWN = {"workspace": "own"}


@pytest_asyncio.fixture(loop_scope="module")
async def bob(shared: SharedDaemon, ann: Person) -> Person:
    """Ann and Bob have workspaces of their own from now on."""
    bob = shared.person()
    shared.allow({ann.number: OWN, bob.number: OWN})
    for person in (ann, bob):
        began = clock.monotonic()
        while "Workspace: your own" not in (answer := await person.ask("/whoami")):
            assert clock.monotonic() - began < PATIENCE, answer
    return bob


def folder_of(person: Person) -> Path:
    return person.daemon.home.state / "people" / f"telegram.{person.number}"


async def offered(home: Installation, key: str, begun: str) -> list[str]:
    async with attach(home.state / "goclaw.sock", key) as client:
        return (await client.answer(AskFiles(begun), FilesReply)).paths


@pytest.mark.promise("P-workspaces-per-person")
async def test_what_one_person_sends_and_notes_is_theirs_and_found_by_no_other(ann: Person, bob: Person) -> None:
    kept = {"key": "pin", "value": "swordfish"}
    await ann.ask(f'{ann.name("b")} call write {{"path": "memory/fish.md", "content": "the swordfish is mine"}}')
    await ann.ask(f"{ann.name('c')} call memory_write {str(kept).replace(chr(39), chr(34))}")
    await ann.say(f"{ann.name('a')} plain", document=b"the swordfish", file_name="plan.txt", mime="text/plain")
    await eventually(lambda: ann.texts()[-1:] == [ann.answer("a")])
    assert (folder_of(ann) / "inbox/plan.txt").read_bytes() == b"the swordfish"
    assert not (ann.daemon.home.workspace / "inbox").exists()
    assert "memory/fish.md" in await ann.ask(f"{ann.name('d')} note mine")
    ways = [
        "note swordfish mine", 'call memory_read {"key": "pin"}', "run cat ../*/inbox/plan.txt; ls ..",
        f'call read {{"path": "{folder_of(ann)}/inbox/plan.txt"}}', 'call glob {"pattern": "**/plan*"}',
        f'call message {{"action": "send", "media_path": "{folder_of(ann)}/inbox/plan.txt"}}',
    ]  # fmt: skip
    for letter, way in zip("abcdef", ways, strict=True):
        answer = await bob.ask(f"{bob.name(letter)} {way}")
        assert "swordfish is" not in answer and "the swordfish" not in answer and "fish.md" not in answer, answer


@pytest.mark.promise("P-workspaces-per-person")
async def test_a_task_in_the_background_works_where_its_person_does(ann: Person, bob: Person) -> None:
    line = f"sleep 0.2; cat {folder_of(ann)}/AGENTS.md > got; echo made > here; cp here shared/there-{bob.number}"
    call = f'{{"command": "bash", "args": ["-c", "{line}"]}}'
    await bob.say(f"{bob.name('a')} call bg_exec {call}")
    await eventually(lambda: (bob.daemon.home.workspace / f"there-{bob.number}").exists())
    assert (folder_of(bob) / "here").read_text() == "made\n" and (folder_of(bob) / "got").read_text() == ""
    assert f"there-{bob.number}" in await ann.ask(f"{ann.name('a')} run ls shared/")


@pytest.mark.promise("P-workspaces-per-person")
async def test_a_terminal_offers_the_files_of_its_person_and_the_shared_ones(shared: SharedDaemon) -> None:
    home = shared.home
    shared.users |= {"tui:eve": OWN, "tui:zoe": OWN}
    shared.allow({})
    for folder in (home.state / "people/tui.eve", home.state / "people/tui.zoe", home.workspace):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / f"secret-{folder.name}.md").touch()
    began = clock.monotonic()
    while len(found := await offered(home, "tui:zoe", "secret")) < 2:
        assert clock.monotonic() - began < PATIENCE
    assert set(found) == {"secret-tui.zoe.md", f"shared/secret-{home.workspace.name}.md"}
    assert await offered(home, "tui:zoe", "../tui.eve/") == []
    assert await offered(home, "tui:zoe", "shared/sec") == [f"shared/secret-{home.workspace.name}.md"]


@pytest.mark.promise("P-workspaces-per-person")
async def test_in_a_group_everybody_works_in_the_shared_workspace(ann: Person, bob: Person) -> None:
    home = ann.daemon.home
    await ann.say_in_group(
        f"{ann.name('a')} run pwd > where-{ann.number}", document=b"ours", file_name="ours.txt", mime="text/plain"
    )
    where = home.workspace / f"where-{ann.number}"
    await eventually(lambda: where.exists() and where.stat().st_size)  # the shell makes the file before `pwd` writes
    assert where.read_text() == f"{home.workspace}\n"
    await eventually(lambda: (home.workspace / "inbox/ours.txt").exists())
    assert not (folder_of(ann) / "inbox/ours.txt").exists()
    assert "ours" in await bob.ask(f"{bob.name('a')} run cat shared/inbox/ours.txt")


@pytest.mark.promise("P-workspaces-per-person")
async def test_whoami_and_the_list_of_users_tell_of_it(ann: Person, bob: Person) -> None:
    assert "Workspace: your own" in await ann.ask("/whoami")
    ann.daemon.allow({ann.number: {}})
    began = clock.monotonic()
    while "Workspace: shared by everybody" not in (answer := await ann.ask("/whoami")):
        assert clock.monotonic() - began < PATIENCE, answer
    listed = await ann.daemon.home.run("users", "list")
    assert f"people/telegram.{bob.number}, with shared/" in listed.out

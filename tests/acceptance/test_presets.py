"""Every preset played from end to end, in Telegram: each command and each tool that it names is used once."""

import json
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from goclaw.common.auth.presets import PRESETS
from goclaw.common.core.catalog import COMMANDS
from tests.acceptance.daemon import installation
from tests.acceptance.model import echo_model
from tests.acceptance.shared import Person, SharedDaemon
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram

pytestmark = [pytest.mark.slow, pytest.mark.promise("P-presets"), pytest.mark.asyncio(loop_scope="module")]

NUMBERS = {name: 101 + place for place, name in enumerate(PRESETS)}
KEYS = re.compile(r"users\.json|config\.yaml|allowedTools|\b(?:roles|limits|policy|tools|pairing)\.[a-z_<]")
"""Files and keys, which are an admin's to read."""
REFUSALS = re.compile(r"Not allowed|[Yy]ou may not|may no longer|Unknown command|permission denied|unknown tool")
ARGUMENTS = {
    "remind": "20m feed the cat", "tool": "read", "queue": "", "forget": "list", "pair": "list", "schedule": "list",
}  # fmt: skip
"""Words behind a command that does nothing without."""
CALLS = {
    "read": {"path": "a.txt"},
    "list": {"path": "."},
    "glob": {"pattern": "*.txt"},
    "search": {"pattern": "one"},
    "write": {"path": "a.txt", "content": "one\ntwo\n"},
    "edit": {"path": "a.txt", "old_string": "one", "new_string": "three"},
    "multi_edit": {"edits": [{"path": "a.txt", "old_string": "two", "new_string": "four"}]},
    "web_search": {"query": "lentils"},
    "web_fetch": {"url": "https://example.org/lentils"},
    "message": {"action": "send", "text": "hello"},
    "ask_user": {"questions": [{"question": "Which?", "options": ["red", "blue"], "allow_free_text": False}]},
    "todo_write": {"todos": [{"content": "homework", "status": "pending"}]},
    "memory_search": {"query": "cat"},
    "memory_list": {},
    "memory_get": {"path": "memory/cat.md"},
    "memory_read": {"key": "cat"},
    "memory_write": {"key": "cat", "value": "Minka"},
    "memory_delete": {"key": "cat"},
    "memento": {"action": "list"},
    "transcript_search": {"query": "cat"},
    "exec": {"command": "true"},
    "bg_exec": {"command": "true"},
    "ssh_exec": {"host": "web1", "command": "true"},
}
ASKING = {"child": ("web_search", "web_fetch"), "adult": ("exec", "bg_exec")}
"""Tools whose calls a person answers first, by preset."""
ASKED = "'s agent wants to "
"""What an approval says, before and after it is decided."""
FIRST = ("write", "memory_write")
"""Tools without which others find nothing."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedDaemon]:
    """A daemon with one person of each preset."""
    folder = tmp_path_factory.mktemp("p")
    async with (
        FakeTelegram() as telegram,
        echo_model() as model,
        installation(folder, telegram, model.url, forks=True) as home,
    ):
        home.state.mkdir(mode=0o700)
        for name, number in NUMBERS.items():
            ran = await home.run("users", "add", f"telegram:{number}", "--name", name, "--preset", name, "--yes")
            assert ran.code == 0, ran.err
        await home.start(telegram)
        yield SharedDaemon(home, telegram, model, {})
        assert await home.stop() == 0


def commands_of(name: str) -> list[str]:
    """The commands that a preset names; all of them where it names none."""
    named = PRESETS[name].settings.get("commands")
    return [*(COMMANDS if named is None else named)]


def complaints(text: str, *, refused: bool = True) -> list[str]:
    """What must be in no answer: a refusal, or a file or key in one."""
    found = REFUSALS.findall(text)
    return [*(found if refused else ()), *(KEYS.findall(text) if found else ())]


@pytest.mark.parametrize("name", PRESETS)
async def test_each_command_of_a_preset_is_carried_out(name: str, house: SharedDaemon) -> None:
    person = Person(NUMBERS[name], house)
    allowed, failed = commands_of(name), {}
    for command in COMMANDS:
        before = len(person.sent())
        await person.say(f"/{command} {ARGUMENTS.get(command, '')}".strip())
        asks_zone = command == "remind" and command in allowed  # the first time, in a message of its own
        said = "\n".join((await person.hears(before + 1 + asks_zone))[before:])
        is_for_others = command not in allowed or (command == "pair" and name != "owner")
        if found := complaints(said, refused=not is_for_others):
            failed[command] = (found, said)
        if is_for_others and not REFUSALS.search(said) and "Only admins" not in said:
            failed[command] = (["was not refused"], said)
    assert failed == {}


@pytest.mark.parametrize("name", PRESETS)
async def test_telegrams_menu_has_what_the_preset_may_run_and_nothing_of_a_demo(name: str, house: SharedDaemon) -> None:
    person = Person(NUMBERS[name], house)
    await person.ask("/whoami")
    useless = {"tool", "agent", "agents", *([] if name == "owner" else ["pair"])}
    wanted = sorted({*commands_of(name)} - useless)
    await eventually(lambda: sorted(house.telegram.world.menu(person.number)) == wanted)
    of_all = {*house.telegram.world.menu(999)}
    assert of_all == {*commands_of("guest")}, "in a chat of nobody who is listed"
    text = await person.ask("/help")
    assert {line.split()[0][1:] for line in text.splitlines() if line.startswith("/")} == {*wanted}


@pytest.mark.parametrize("name", [name for name in PRESETS if PRESETS[name].settings.get("tools") != ()])
async def test_each_tool_that_a_preset_names_is_run_or_asked_for(name: str, house: SharedDaemon) -> None:
    person, owner = Person(NUMBERS[name], house), Person(NUMBERS["owner"], house)
    settings, failed = PRESETS[name].settings, {}
    assert set(settings.get("tools", ())) <= set(CALLS), "each has a call above"
    named = [tool for tool in CALLS if tool in settings.get("tools", CALLS)]
    for place, tool in enumerate(sorted(named, key=lambda each: each not in FIRST)):
        said = await _said_for(tool, person, owner, f"t{place}x")
        if found := complaints("\n".join(said)):
            failed[tool] = (found, said)
        if tool in ASKING.get(name, ()) and not any(ASKED in text for text in said):
            failed[tool] = (["nobody was asked"], said)
    assert failed == {}


async def _said_for(tool: str, person: Person, owner: Person, letter: str) -> list[str]:
    """What the person, and who answers their questions, is sent from a call to the end of its turn."""
    telegram, identity = person.daemon.telegram, person.name(letter)
    before = len(telegram.sent())

    def said() -> list[str]:
        return [sent.text for sent in telegram.sent()[before:] if sent.chat in (person.number, owner.number)]

    def denying() -> list[str]:
        rows = [row for sent in telegram.sent()[before:] for row in sent.keyboard]
        return [button["callback_data"] for row in rows for button in row if button["text"] == "Deny"]

    def has(*words: str) -> bool:
        return any(word in text for text in said() for word in words)

    await person.say(f"{identity} call {tool} {json.dumps(CALLS[tool])}")
    await eventually(lambda: denying() or has("(end)", "Which?"))
    if asked := denying():
        await owner.say(f"/deny {asked[0].split(':')[1]}")
    elif not has("(end)"):
        await person.say("red")
    await eventually(lambda: has("(end)"))
    return said()

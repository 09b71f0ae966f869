"""`config`: settings are read, and a few changed when a person agrees; the operator's only by admins."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.container import daemon_command
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolCall
from goclaw.common.specs import Risk
from goclaw.conversation.turns.turn_context import SessionPorts
from goclaw.errors import GoclawError
from goclaw.llm.scripted import Answer
from goclaw.tools.builtin.gateway_control import config
from tests.conversation.questions.test_questions import asked
from tests.conversation.sessions.approving import results
from tests.harness import Core, World
from tests.tools.builtin.memory_support import surroundings

ANNA, CHEF = Actor("memory:anna", "memory"), Actor("memory:chef", "memory")
USERS = (User(ANNA.key), User(CHEF.key, roles=frozenset({"admin"})))


def calling(folder: Path, *given: dict[str, Any]) -> World:
    """A model that makes each call in an answer of its own."""
    calls = [ToolCall(f"c{number}", "config", each) for number, each in enumerate(given)]
    return World(folder, [*(Answer(calls=(call,)) for call in calls), Answer("Done.")], tools=[config], users=USERS)


def with_file(core: Core, file: Path) -> None:
    ports: SessionPorts = core.sessions.ports
    object.__setattr__(ports, "config_file", file)


async def test_the_conversations_own_setting_is_read_and_chosen_at_once(tmp_path: Path) -> None:
    read, choose = {"setting": "session.queue_mode"}, {"setting": "session.queue_mode", "value": "steer"}
    async with calling(tmp_path, read, choose, {"setting": "session.mode"}).running() as core:
        await core.say("go", actor=ANNA, session=ANNA.key)
        await core.settled()
        assert await results(core, ANNA.key) == [
            "session.queue_mode: queue",
            "changed to session.queue_mode: steer",
            "session.mode: default",
        ]
        assert await core.sessions.choices.queue_modes.of(ANNA.key) == "steer"


async def test_a_right_cannot_be_chosen_so(tmp_path: Path) -> None:
    given = [{"setting": "session.mode", "value": "bypass"}, {"setting": "session.model", "value": "x"},
             {"setting": "session.queue_mode", "value": "x"}]  # fmt: skip
    async with calling(tmp_path, *given).running() as core:
        await core.say("go", actor=CHEF, session=CHEF.key)
        await core.settled()
        assert all('"error"' in said for said in await results(core, CHEF.key))
        assert await core.sessions.choices.modes.choice_for(CHEF.key) == "default"


async def test_an_admin_changes_a_key_when_they_agree_and_reads_that_a_restart_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "state" / "config.yaml"
    file.parent.mkdir()
    file.write_text("# ours\nmemory:\n  max_results: 6  # few\n")
    async with calling(tmp_path, {"setting": "memory.max_results", "value": 9}).running() as core:
        with_file(core, file)
        await core.say("go", actor=CHEF, session=CHEF.key)
        question = await asked(core)
        assert "`memory.max_results` is `6` and would be `9` after the next start" in question.text
        assert file.read_text() == "# ours\nmemory:\n  max_results: 6  # few\n"
        await core.command(f"/approve {question.id}", actor=CHEF, session=CHEF.key)
        await core.settled()
        assert await results(core, CHEF.key) == [
            "changed to memory.max_results: 9; it takes effect after a restart "
            f"({daemon_command('restart').strip('`')})"
        ]
    assert file.read_text() == "# ours\nmemory:\n  max_results: 9  # few\n"


async def test_nobody_is_asked_about_a_change_that_cannot_be_made(tmp_path: Path) -> None:
    file = tmp_path / "state" / "config.yaml"
    given = (
        ({"setting": "policy.mode", "value": "bypass"}, "policy.mode cannot be changed here"),
        ({"setting": "no such key", "value": 1}, "no such key cannot be changed here"),
        ({"setting": "memory.max_results", "value": 0}, "memory.max_results"),
        ({"setting": "memory.max_results", "value": "many"}, "memory.max_results"),
        ({"setting": "log_level", "value": "LOUD"}, "log_level"),
    )
    file.parent.mkdir()
    async with calling(tmp_path, *(each for each, _ in given)).running() as core:
        with_file(core, file)
        await core.say("go", actor=CHEF, session=CHEF.key)
        await core.settled()
        said = await results(core, CHEF.key)
    assert len(said) == len(given)
    for line, (_, words) in zip(said, given, strict=True):
        assert line.startswith('{"error": "') and words in line
    assert not file.exists()


async def test_nobody_is_asked_about_a_change_that_only_admins_may_make(tmp_path: Path) -> None:
    async with calling(tmp_path, {"setting": "memory.max_results", "value": 9}).running() as core:
        with_file(core, tmp_path / "state" / "config.yaml")
        await core.say("go", actor=ANNA, session=ANNA.key)
        await core.settled()
        assert "permission denied: that is changed by admins only" in (await results(core, ANNA.key))[0]


async def test_who_is_no_admin_reads_what_may_be_changed_and_nothing_else(tmp_path: Path) -> None:
    given = [{"setting": "memory.max_results"}, {"setting": "providers"}, {}]
    async with calling(tmp_path, *given).running() as core:
        await core.say("go", actor=ANNA, session=ANNA.key)
        await core.settled()
        first, second, third = await results(core, ANNA.key)
    assert first == "memory.max_results: 6"
    assert "permission denied: that is read by admins only" in second
    assert "session.queue_mode: queue" in third and 'log_level: "INFO"' in third


async def test_an_admin_reads_every_key_and_no_secret(tmp_path: Path) -> None:
    world = calling(tmp_path, {"setting": "telegram"}, {"setting": "nothing"})
    world.config = world.config.model_validate(
        {"state_dir": tmp_path / "state", "telegram": {"token": "123:very-secret-token"}}
    )
    async with world.running() as core:
        await core.say("go", actor=CHEF, session=CHEF.key)
        await core.settled()
        telegram, nothing = await results(core, CHEF.key)
    assert "telegram.token: ********" in telegram and "very-secret" not in telegram
    assert "no key 'nothing'" in nothing


def test_reading_is_low_and_changing_the_file_asks() -> None:
    def risk(**given: Any) -> Risk:
        assert config.risk
        return config.risk(config.arguments.model_validate(given), None)  # type: ignore[arg-type]  # asks nothing of it

    assert risk() is risk(setting="log_level") is Risk.LOW
    assert risk(setting="session.queue_mode", value="steer") is Risk.MEDIUM
    assert risk(setting="log_level", value="DEBUG") is risk(setting="policy.mode", value="x") is Risk.HIGH


@pytest.mark.parametrize(
    "given",
    [
        {"setting": 1},
        {"setting": "x" * 201},
        {"setting": "log_level", "value": []},
        {"setting": "log_level", "value": {"a": 1}},
        {"setting": "no such key"},
        {"setting": "log_level", "value": "DEBUG"},
        {"setting": "\ud800"},
        {"settings": "log_level"},
    ],
)
async def test_bad_input_and_a_file_that_nobody_knows_change_nothing(tmp_path: Path, given: dict[str, Any]) -> None:
    async with surroundings(tmp_path) as around:
        with pytest.raises(GoclawError):
            await around.call(config, given)


async def test_a_key_that_cannot_be_changed_is_named_where_no_file_is_known_too(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        with pytest.raises(
            GoclawError, match=r"^policy\.mode cannot be changed here; an admin can change it in the conf"
        ):
            await around.call(config, {"setting": "policy.mode", "value": "bypass"})

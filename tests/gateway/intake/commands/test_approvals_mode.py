"""/mode says and sets what runs without asking in a session, durably, and judged anew at every use."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.conversation.sessions.modes import MEANINGS
from tests.harness import OWNER, World

HERE = "memory:here"
ANN = Actor("telegram:5", "telegram")
SESSION = "telegram:5"
GROUP = "telegram:-100"


BOSS = Actor("telegram:6", "telegram")
USERS = (User("telegram:5"), User("telegram:6", roles=frozenset({"admin"})))


def world(folder: Path, **policy: Any) -> World:
    folder.mkdir(exist_ok=True)
    return World(folder, users=USERS, policy=policy)


async def test_it_says_what_is_in_force_and_what_can_be_chosen(tmp_path: Path) -> None:
    async with World(tmp_path, policy={"mode": "accept-edits"}).running() as core:
        first, *choices = (await core.command("/mode")).splitlines()
    assert first == "Permission mode: accept-edits."
    assert [line.split(":")[0].strip() for line in choices] == [
        f"/mode {mode}" for mode in ("default", "accept-edits", "plan", "bypass", "configured")
    ]
    assert choices[-1].endswith("as configured (accept-edits)")


async def test_a_choice_holds_for_its_session_and_over_restarts(tmp_path: Path) -> None:
    at = World(tmp_path)
    async with at.running() as core:
        assert await core.command("/mode Plan ") == f"Permission mode: plan: {MEANINGS['plan']}."
    async with at.running() as core:
        assert (await core.command("/mode")).startswith("Permission mode: plan.")
        assert (await core.command("/mode", chat="elsewhere")).startswith("Permission mode: default.")
        said = await core.command("/mode configured")
        assert said == f"Permission mode: default, as configured: {MEANINGS['default']}."
        assert (await core.command("/mode")).startswith("Permission mode: default.")


async def test_an_unknown_mode_changes_nothing(tmp_path: Path) -> None:
    async with World(tmp_path).running() as core:
        await core.command("/mode plan")
        said = await core.command("/mode yolo")
        assert said == (
            "There is no permission mode 'yolo'. Send one of: default, accept-edits, plan, bypass, configured."
        )
        assert (await core.command("/mode")).startswith("Permission mode: plan.")


@pytest.mark.parametrize("mode", ["default", "plan"])
async def test_the_status_tells_a_mode_that_is_not_the_usual_one(tmp_path: Path, mode: str) -> None:
    async with World(tmp_path).running() as core:
        await core.command(f"/mode {mode}")
        text, numbers = await core.command("/status"), await core.gateway.status(HERE, OWNER)
    assert ("  Permission mode: plan" in text.splitlines()) == (mode == "plan")
    assert "Permission mode: default" not in text
    assert numbers["mode"] == mode


async def test_bypass_needs_the_configuration_and_an_admin(tmp_path: Path) -> None:
    refused = "The permission mode is unchanged: bypass is for admins, and needs policy.allow_bypass."
    async with world(tmp_path / "strict").running() as core:
        assert await core.command("/mode bypass", actor=BOSS, session=GROUP) == refused
    async with world(tmp_path / "mild", allow_bypass=True).running() as core:
        told = await core.command("/mode bypass", actor=ANN, session=GROUP)
        assert told == "The permission mode is unchanged: you may not choose this one."
        assert (await core.command("/mode bypass", actor=BOSS, session=GROUP)).startswith("Permission mode: bypass")
        modes = core.sessions.choices.modes
        assert [await modes.of(GROUP, who) for who in (BOSS, ANN)] == ["bypass", "default"]
        said = await core.command("/mode", actor=ANN, session=GROUP)
        assert said.startswith("Permission mode: bypass, which for you is default.")


@pytest.mark.parametrize(("by", "approved", "leaves"), [(ANN, False, False), (ANN, True, True), (BOSS, False, True)])
async def test_a_configured_plan_mode_is_left_by_an_approved_plan_or_by_an_admin(
    tmp_path: Path, by: Actor, approved: bool, leaves: bool
) -> None:
    at = world(tmp_path, mode="plan")
    async with at.running() as core:
        modes = core.sessions.choices.modes
        decision = await modes.choose(SESSION, "default", by, approved=approved)
        assert decision.allowed is leaves
        assert await modes.of(SESSION, ANN) == ("default" if leaves else "plan")
        assert (await modes.choose(SESSION, "plan", ANN)).allowed, "back is always possible"
        assert not (await modes.choose(SESSION, "bypass", ANN, approved=True)).allowed


async def test_a_choice_lapses_when_the_configured_mode_is_another_one(tmp_path: Path) -> None:
    async with world(tmp_path).running() as core:
        assert (await core.sessions.choices.modes.choose(SESSION, "accept-edits", ANN)).allowed
    async with world(tmp_path, mode="plan").running() as core:
        assert await core.sessions.choices.modes.of(SESSION, ANN) == "plan"
        assert await core.sessions.choices.modes.choice_for(SESSION) == "plan"


async def test_who_may_not_write_to_a_session_may_not_choose_its_mode_and_tries_are_recorded(tmp_path: Path) -> None:
    at = world(tmp_path)
    async with at.running() as core:
        modes = core.sessions.choices.modes
        assert not (await modes.choose("telegram:6", "plan", ANN)).allowed
        assert (await modes.choose(SESSION, "plan", ANN)).allowed
    tried = [(entry.object, entry.where, entry.allowed) for entry in at.audited if entry.action == "session.mode"]
    assert tried == [("plan", "telegram:6", False), ("plan", SESSION, True)]

"""Approvals from the question to the run: bound to the call, to the approver, to their time; and for good."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from goclaw.channels.memory import Heard
from goclaw.common.auth.users import User
from goclaw.common.core.events import ALWAYS, Actor, Delivery, Question
from goclaw.common.core.messages import ToolCall
from goclaw.tools.builtin.exec import exec_
from goclaw.tools.builtin.message import message
from tests.conversation.sessions.approving import (
    ANNA,
    BOB,
    CHEF,
    GUEST,
    asked_so_far,
    commands,
    hashes_in,
    open_questions,
    reconfigure,
    results,
    world_of,
)
from tests.harness import PATIENCE, Answer, Core, Tools, World, before_the_next_look

anna, bob, chef, guest = (Actor(key, "memory") for key in (ANNA, BOB, CHEF, GUEST))


async def asked(core: Core, number: int = 1) -> Question:
    """The question of this number, when it is asked."""
    async with asyncio.timeout(PATIENCE):
        while len(found := asked_so_far(core)) < number:  # the core has no event for it
            await before_the_next_look()
    return found[number - 1]


async def standing(world: World, question: Question) -> Heard:
    """The message of a question, when it is there."""
    async with asyncio.timeout(PATIENCE):
        while not (found := [heard for heard in world.room.all if names(heard.delivery, question.id)]):  # as below
            await before_the_next_look()
    return found[0]


def names(delivery: Delivery, question: str) -> bool:
    return any(choice.question == question for choice in delivery.choices)


async def arrived(world: World, number: int) -> list[Delivery]:
    """What stands in chats, when it is so much."""
    async with asyncio.timeout(PATIENCE):
        while len(world.room.all) < number:  # the room has no event for it
            await before_the_next_look()
    return [heard.delivery for heard in world.room.all]


# What is approved is what runs


@pytest.mark.promise("P-approval")
@pytest.mark.parametrize(
    "line", ["./x.sh", "bash x.sh", "python3 x.sh", "cat x.sh | sh", "sh -c 'bash ./x.sh'", "cd sub && ../x.sh"]
)
@pytest.mark.parametrize("how", ["rewritten", "a link", "gone", "untouched"])
async def test_a_script_that_changes_while_it_is_asked_for_is_not_run(tmp_path: Path, line: str, how: str) -> None:
    world, sandbox = world_of(tmp_path, commands(line))
    script, other = world.root / "x.sh", world.root / "other.sh"
    script.write_text("echo good")
    other.write_text("echo evil")
    (world.root / "sub").mkdir()
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        question = await asked(core)
        assert "- `x.sh`" in question.text or "cd sub" in line
        shown = hashes_in(world.root)
        if how == "rewritten":
            script.write_text("echo evil")
        elif how == "a link":
            script.unlink()
            script.symlink_to("other.sh")
        elif how == "gone":
            script.unlink()
        assert (await core.gateway.choose(anna, question.id, 0)).text == "Allowed."
        await core.settled()
        told = (await results(core, ANNA))[0]
        if how == "untouched":
            assert [ran.line for ran in sandbox.ran] == [line] and told.startswith("ran")
            assert sandbox.ran[0].files in (shown, {})
        else:
            assert sandbox.ran == [] and "changed after it was shown" in told


@pytest.mark.parametrize(
    ("tier", "network", "said"),
    [
        ("bubblewrap", "none", "It sees the workspace only, no network."),
        ("bubblewrap", "host", "It sees the workspace only, and the whole network."),
        ("off", "none", "commands run without containment.**\n\nIt can reach everything on this machine."),
    ],
)
async def test_a_question_says_where_a_command_runs_and_what_it_reaches(
    tmp_path: Path, tier: str, network: str, said: str
) -> None:
    world, sandbox = world_of(tmp_path, commands("ls"))
    sandbox.tier = tier
    reconfigure(world, tools={"exec": {"network": network}}, policy={"always_ask": ["exec"]})
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        question = await asked(core)
        assert said in question.text and question.title == "Anna's agent wants to run `ls`"
        assert f"sandbox `{tier}`, network of commands `{network}`" in question.details
        await core.gateway.choose(anna, question.id, 0)
        await core.settled()


@pytest.mark.promise("P-approval")
async def test_what_was_not_run_is_asked_anew_as_it_is_now(tmp_path: Path) -> None:
    world, sandbox = world_of(tmp_path, commands("./x.sh", "./x.sh"))
    (world.root / "x.sh").write_text("echo good")
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        first = await asked(core)
        (world.root / "x.sh").write_text("echo other")
        await core.gateway.choose(anna, first.id, 0)
        second = await asked(core, 2)
        assert second.digest != first.digest and second.id != first.id
        await core.gateway.choose(anna, second.id, 0)
        await core.settled()
        assert [ran.line for ran in sandbox.ran] == ["./x.sh"] and asked_so_far(core) == [first, second]


@pytest.mark.promise("P-approval")
async def test_an_approval_does_not_outlive_a_changed_configuration(tmp_path: Path) -> None:
    world, sandbox = world_of(tmp_path, commands("ls"))
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        question = await asked(core)
    reconfigure(world, tools={"exec": {"network": "host", "env": {"A": "b"}}})
    async with world.running() as core:
        assert (await core.gateway.choose(anna, question.id, 0)).text == "Allowed."
        await core.settled()
        assert sandbox.ran == [] and "changed after it was shown" in (await results(core, ANNA))[0]


@pytest.mark.promise("P-approval")
@pytest.mark.parametrize(("later", "runs"), [(29 * 60.0, True), (31 * 60.0, False), (-31 * 60.0, False)])
async def test_an_approval_that_was_given_before_a_crash_expires_like_every_other(
    tmp_path: Path, later: float, runs: bool
) -> None:
    world, sandbox = world_of(tmp_path, commands("ls"))
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        question = await asked(core)
        write = core.database.write

        async def last(*statements: object, durable: bool = False) -> object:
            done = await write(*statements, durable=durable)  # type: ignore[arg-type]  # passed on
            core.database.dead.set()
            return done

        core.database.write = last  # type: ignore[method-assign, assignment]  # the process dies right behind the answer
        answering = asyncio.ensure_future(core.gateway.choose(anna, question.id, 0))
        async with asyncio.timeout(PATIENCE):
            await core.database.dead.wait()
        await asyncio.sleep(0)
    await asyncio.gather(answering, return_exceptions=True)
    world.clock.jump(later)
    async with world.running() as core:
        await core.settled()
        told = (await results(core, ANNA))[0]
        assert (len(sandbox.ran) == 1) is runs and ("its approval is too old" in told) is not runs


# Who may approve


@pytest.mark.promise("P-approval")
async def test_an_approver_who_lost_the_right_before_the_run_has_approved_nothing(tmp_path: Path) -> None:
    world, sandbox = world_of(tmp_path, commands("ls"))
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        question = await asked(core)
        journal = core.sessions.ports.questions._journal
        answer = journal.answer

        async def and_then(*given: Any) -> bool:
            world.users._users.pop(CHEF, None)
            return await answer(*given)

        object.__setattr__(journal, "answer", and_then)
        assert (await core.gateway.choose(chef, question.id, 0)).text == "Allowed."
        await core.settled()
        assert sandbox.ran == [] and "whoever approved it may not" in (await results(core, ANNA))[0]


@pytest.mark.promise("P-approval")
async def test_who_may_not_approve_sees_that_others_are_asked_and_the_first_answer_wins(tmp_path: Path) -> None:
    world, sandbox = world_of(tmp_path, commands("ls"))
    world.users._users["memory:boss"] = User("memory:boss", "Boss", roles=frozenset({"admin"}))
    async with world.running() as core:
        await core.say("go", actor=guest, session=GUEST, chat="guest")
        question = await asked(core)
        here, *there = await arrived(world, 3)
        assert "I asked Chef, Boss." in here.text and question.id not in here.text and here.choices == ()
        assert [delivery.address.chat for delivery in there] == ["chef", "boss"]
        labels = ["Allow once", "Always for ls", "Deny", "Details"]
        assert all([choice.label for choice in each.choices] == labels for each in there)
        assert (await core.gateway.choose(guest, question.id, 0)).text == "Only an admin can answer this."
        assert (await core.gateway.choose(Actor("memory:boss", "memory"), question.id, 2)).text == "Denied."
        assert (await core.gateway.choose(chef, question.id, 0)).text == "Already decided: denied by Boss."
        await core.settled()
        edits = [heard.delivery for heard in world.room.all if heard.delivery.action == "edit"]
        assert sorted(edit.address.chat for edit in edits) == ["boss", "chef", "guest"]
        assert all(edit.text.startswith("✗ Denied by Boss") and edit.choices == () for edit in edits)
        assert sandbox.ran == [] and "the user did not approve exec" in (await results(core, GUEST))[0]


# For good


async def allowed_for_good(core: Core, line: str = "git status", by: Actor = anna) -> None:
    await core.say("go", actor=anna, session=ANNA)
    question = await asked(core)
    assert (await core.gateway.decide(by, question.id, ALWAYS)).text == (
        "Always allowed from now on. /approvals lists it."
    )
    await core.settled()


@pytest.mark.promise("P-approval")
async def test_what_is_allowed_for_good_is_not_asked_again_in_any_order_and_over_restarts(tmp_path: Path) -> None:
    world, sandbox = world_of(tmp_path, commands("git status && ls -l") + commands("ls -l; git status; git status"))
    async with world.running() as core:
        await allowed_for_good(core)
    async with world.running() as core:
        await core.say("again", actor=anna, session=ANNA)
        await core.settled()
        assert len(sandbox.ran) == 2 and asked_so_far(core) == []
    assert [entry.result for entry in world.audited if entry.action == "tool.approval"] == ["asked", "always", "rule"]
    used = world.audited[-2] if world.audited[-2].action == "tool.approval" else world.audited[-3]
    assert used.rule.startswith("approval rule ") and ANNA in used.rule


@pytest.mark.promise("P-approval")
@pytest.mark.parametrize(
    "line", ["git status -s", "git", "git status && rm -r x", "git status | sh", "GIT status", "git status > x"]
)
async def test_what_is_not_the_very_same_is_asked(tmp_path: Path, line: str) -> None:
    world, sandbox = world_of(tmp_path, [*commands("git status"), *commands(line)])
    async with world.running() as core:
        await allowed_for_good(core)
        await core.say("more", actor=anna, session=ANNA)
        await asked(core, 2)
        assert len(sandbox.ran) == 1


@pytest.mark.promise("P-approval")
@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.users._users.update({ANNA: replace(world.users._users[ANNA], roles=frozenset({"guest"}))}),
        lambda world: setattr(world.sandbox, "tier", "broker"),
        lambda world: setattr(world.sandbox, "tier", "off"),
        lambda world: world.config.tools.network.__dict__.update(allow=("internal",)),
    ],
    ids=["the maker's right", "the tier", "no sandbox", "the network"],
)
async def test_a_rule_does_not_hold_when_what_it_was_made_in_changed(
    tmp_path: Path, change: Callable[[World], None]
) -> None:
    world, sandbox = world_of(tmp_path, commands("git status") * 2)
    async with world.running() as core:
        await allowed_for_good(core)
    change(world)
    async with world.running() as core:
        await core.say("again", actor=anna, session=ANNA)
        await asked(core)
        assert len(sandbox.ran) == 1


@pytest.mark.promise("P-approval")
@pytest.mark.parametrize("policy", [{"stricter": {"high": "refuse"}}, {"mode": "plan"}])
async def test_a_rule_opens_nothing_that_is_refused(tmp_path: Path, policy: dict[str, object]) -> None:
    world, sandbox = world_of(tmp_path, commands("git status") * 2)
    async with world.running() as core:
        await allowed_for_good(core)
    reconfigure(world, policy=policy)
    async with world.running() as core:
        await core.say("again", actor=anna, session=ANNA)
        await core.settled()
        assert len(sandbox.ran) == 1 and "refused" in (await results(core, ANNA))[-1]


@pytest.mark.promise("P-approval")
async def test_a_rule_is_for_one_person_and_a_script_in_it_for_what_it_was(tmp_path: Path) -> None:
    world, sandbox = world_of(tmp_path, commands("python3 x.py") * 3)
    (world.root / "x.py").write_text("print(1)")
    async with world.running() as core:
        await allowed_for_good(core)
        await core.say("go", actor=bob, session=BOB)
        await core.gateway.choose(bob, (await asked(core, 2)).id, 2)
        await core.settled()
        (world.root / "x.py").write_text("print(2)")
        await core.say("again", actor=anna, session=ANNA)
        assert "print" not in (await asked(core, 3)).text and len(sandbox.ran) == 1


@pytest.mark.promise("P-approval")
@pytest.mark.parametrize(
    "line", ["sh x.sh", "python3 -c 1", "sudo ls", "rm *", "python3", "echo $X", "make > log", "rm -r x"]
)
async def test_for_good_is_not_offered_for_what_could_be_anything(tmp_path: Path, line: str) -> None:
    world, _ = world_of(tmp_path, commands(line))
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        question = await asked(core)
        assert question.options == ("allow", "deny")
        assert "one of: allow, deny" in (await core.gateway.decide(anna, question.id, ALWAYS)).text
        assert "one of: allow, deny" in await core.command(f"/approve {question.id} always", actor=anna, session=ANNA)
        assert open_questions(core) == [question]


async def test_without_a_sandbox_every_approval_says_so_and_none_is_for_good(tmp_path: Path) -> None:
    world, sandbox = world_of(tmp_path, commands("git status"))
    sandbox.tier = "off"
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        question = await asked(core)
        assert "The sandbox is off" in question.text and question.options == ("allow", "deny")


async def test_rules_are_listed_and_removed_by_those_for_whom_they_hold(tmp_path: Path) -> None:
    world, sandbox = world_of(tmp_path, commands("git status") * 2)
    async with world.running() as core:

        async def say(text: str, actor: Actor) -> str:
            return await core.command(text, actor=actor, session=actor.key)

        assert (await say("/approvals", anna)).startswith("There are no permanent approvals")
        await allowed_for_good(core)
        assert "1. exec for memory:anna: git status (by memory:anna" in await say("/approvals", anna)
        assert (await say("/approvals", bob)).startswith("There are no permanent approvals")
        assert "There is no approval 1." in await say("/approvals remove 1", bob)
        assert "1. exec" in await say("/approvals list", chef)
        for odd in ("remove", "remove x", "remove -1", "remove 1 2", f"remove {'9' * 40}", "add 1", "remove ١"):
            assert "lists permanent approvals" in await say(f"/approvals {odd}", anna)
        assert (await say("/approvals remove 1", anna)).startswith("Approval 1 removed")
        assert "There is no approval 1." in await say("/approvals remove 1", anna)
        await core.say("again", actor=anna, session=ANNA)
        await asked(core, 2)
        assert len(sandbox.ran) == 1


# A no


@pytest.mark.promise("P-approval")
async def test_after_a_no_the_like_is_not_asked_again_and_three_of_them_end_the_turn(tmp_path: Path) -> None:
    lines = ["rm -rf build", "rm -r -f build", "rm -fr  'build'", "rm -rf ./build", "rm -rf build/"]
    world, sandbox = world_of(tmp_path, commands(*lines))
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        await core.gateway.decide(anna, (await asked(core)).id, "deny")
        await core.settled()
        told = [orjson.loads(result) for result in await results(core, ANNA)]
        assert told[0]["result"] == "denied: the user did not approve exec" and told[0]["command"] == "rm -rf build"
        assert ["nobody was asked again" in result["result"] for result in told] == [False, True, True]
        assert len(asked_so_far(core)) == 1 and sandbox.ran == []
    assert world.texts()[-1] == "I stopped: 3 tool calls in this turn were denied. Tell me how to continue."


async def test_a_no_is_remembered_over_a_restart_and_forgotten_with_its_turn(tmp_path: Path) -> None:
    world, _ = world_of(tmp_path, [*commands("rm -rf build", "ls", "rm -rf ./build"), *commands("rm -rf build")])
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        await core.gateway.decide(anna, (await asked(core)).id, "deny")
        await asked(core, 2)
    async with world.running() as core:
        await core.gateway.choose(anna, (await asked(core)).id, 0)
        await core.settled()
        assert "nobody was asked again" in (await results(core, ANNA))[2] and len(asked_so_far(core)) == 1
        await core.say("do it after all", actor=anna, session=ANNA)
        await asked(core, 2)


# What stands in the chat


async def test_however_it_is_decided_the_message_says_so_and_has_no_buttons_any_more(tmp_path: Path) -> None:
    world, _ = world_of(tmp_path, [*commands("ls"), *commands("ls"), *commands("ls")[:1], *commands("ls")])
    async with world.running() as core:
        for number, (how, words) in enumerate(
            [
                (lambda name: core.command(f"/approve {name}", actor=anna, session=ANNA), "✓ Allowed by Anna"),
                (lambda name: core.command(f"/deny {name.upper()}", actor=chef, session=ANNA), "✗ Denied by Chef"),
                (lambda name: core.command("/stop", actor=anna, session=ANNA), "✗ This question is closed"),
                (None, "✗ Nobody answered in time"),
            ],
            1,
        ):
            await core.say("go", actor=anna, session=ANNA)
            question = await asked(core, number)
            shown = await standing(world, question)
            assert [choice.answer for choice in shown.delivery.choices] == [*question.options, "details"]
            if how:
                await how(question.id)  # type: ignore[no-untyped-call]  # lambdas
            else:
                async with asyncio.timeout(PATIENCE):
                    while not world.clock.sleepers:
                        await core.messages()
                world.clock.advance(30 * 60)
            await core.settled()
            edit = next(h for h in world.room.all if h.delivery.action == "edit" and h.message_id == shown.message_id)
            assert edit.delivery.text.startswith(words) and edit.delivery.choices == ()
            assert question.id not in edit.delivery.text


@pytest.mark.promise("P-approval")
async def test_a_long_call_can_be_allowed_when_its_details_are_open_and_a_terminal_has_it_all(
    tmp_path: Path,
) -> None:
    line = f"echo {' '.join(f'word{number}' for number in range(2_000))}"
    world, _ = world_of(tmp_path, commands(line))
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        question = await asked(core)
        assert line in question.text
        (shown,) = await arrived(world, 1)
        assert "not shown" in shown.text and "too long to show" in shown.text and len(shown.text) < 4_500
        assert [choice.label for choice in shown.choices] == ["Deny", "Details"]
        details = shown.choices[-1]
        assert details.place is not None
        assert (await core.gateway.choose(bob, question.id, details.place)).text.startswith("Only Anna")
        assert (await core.gateway.choose(anna, question.id, details.place)).text == ""
        _, document, opened = await arrived(world, 3)
        assert (opened.action, opened.of) == ("edit", shown.id) and f"/approve {question.id}" in opened.text
        assert [choice.label for choice in opened.choices] == ["Allow once", "Always", "Deny"]
        assert document.media and line in (await core.sessions.ports.environment.blobs.get(document.media)).decode()


async def test_details_show_the_sandbox_the_call_and_the_id_and_decide_nothing(tmp_path: Path) -> None:
    world, sandbox = world_of(tmp_path, commands("ls"))
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        question = await asked(core)
        (shown,) = await arrived(world, 1)
        assert question.id not in shown.text and "sandbox" not in shown.text and "{" not in shown.text
        for _ in range(2):  # pressed twice, opened once
            assert (await core.gateway.choose(anna, question.id, len(question.options))).text == ""
        _, opened = await arrived(world, 2)
        assert '"command": "ls"' in opened.text and "sandbox `bubblewrap`" in opened.text
        assert f"/approve {question.id}" in opened.text and sandbox.ran == []
        await core.gateway.choose(anna, question.id, 0)
        await core.settled()
        assert [ran.line for ran in sandbox.ran] == ["ls"]


@pytest.mark.promise("P-approval")
async def test_the_message_tool_cannot_change_what_is_asked(tmp_path: Path) -> None:
    asking = ToolCall("c1", "exec", {"command": "rm -rf ."})
    lying = (
        ToolCall("c2", "message", {"action": "edit", "message_id": "1", "text": "May ls run?"}),
        ToolCall("c3", "message", {"action": "delete", "message_id": "1"}),
    )
    world, _ = world_of(tmp_path, [Answer(calls=(asking,)), Answer(calls=lying), Answer("Done.")])
    world.tools = Tools([exec_, message])
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        question = await asked(core)
        await standing(world, question)
        assert (await core.gateway.choose(anna, question.id, 1)).text == "Denied."
        await core.settled()
        told = await results(core, ANNA)
        assert sum("asks a person something and cannot be changed" in result for result in told) == 2
    assert [heard.delivery.text[:8] for heard in world.room.all if heard.delivery.action != "send"] == ["✗ Denied"]


@pytest.mark.promise("P-approval")
async def test_no_id_ever_reaches_the_model(tmp_path: Path) -> None:
    world, _ = world_of(tmp_path, [*commands("ls", "pwd", "id")])
    async with world.running() as core:
        await core.say("go", actor=anna, session=ANNA)
        for number in (1, 2, 3):
            await core.gateway.choose(anna, (await asked(core, number)).id, 0)
        await core.settled()
        seen = repr(world.script.requests) + repr(await core.messages(ANNA))
        assert not any(question.id in seen for question in asked_so_far(core)) and "ran" in seen

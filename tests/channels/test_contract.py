"""What tools ask of a channel is there in each: to deliver, to ask, to carry files, to show what goes on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.catalog import CHANNELS, TOOLS
from tests.acceptance.waiting import eventually
from tests.channels import contract_tools
from tests.channels.contract import WAYS, Way, opened
from tests.channels.contract_tools import BOATS, harbours

REMOTE = "remote terminal"
"""Once connected it is a terminal like any other (servers.serving): it takes part where the two could differ."""
NO_CHANNELS = {"terminal", REMOTE}
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
LONG = "\n\n".join(f"Line {number} of a long answer." for number in range(1_000))

Json = dict[str, Any]


@pytest.fixture(params=[name for name in WAYS if name != REMOTE])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    return WAYS[request.param](tmp_path)


@pytest.fixture(params=WAYS)
def any_way(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    return WAYS[request.param](tmp_path)


@pytest.fixture(autouse=True)
def _tools(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, place in contract_tools.TOOLS.items():
        monkeypatch.setitem(TOOLS, name, place)
    harbours.clear()
    yield
    harbours.clear()


def call(tool: str, number: int = 1, **given: Any) -> Json:
    return {"id": f"c{number}", "name": tool, "input": given}


def when(words: str, *calls: Json, **more: Any) -> Json:
    """The model makes these calls when the last message has these words in it."""
    return {"when": words, "calls": list(calls), **more}


def asking(*questions: Json) -> Json:
    return when("go", call("ask_user", questions=list(questions)))


def test_every_channel_is_held_to_the_contract() -> None:
    assert set(CHANNELS) == set(WAYS) - NO_CHANNELS, "give the new channel a Way in tests/channels/contract.py"


# Deliver


async def test_an_answer_arrives_whole_however_long(way: Way) -> None:
    async with opened(way, {"when": "go", "text": LONG}) as scene, scene.daemon():
        await way.say("go")

        def arrived() -> bool:
            everything = "\n".join([*way.shown(), *(content.decode() for _, content in way.files())])
            return all(line in everything for line in LONG.split("\n\n"))

        await eventually(arrived)


async def test_a_message_beside_the_answer_is_sent_changed_marked_and_taken_away(way: Way) -> None:
    which = way.first
    async with opened(
        way,
        when("begin", call("message", action="send", text="first")),
        when("change", call("message", action="edit", message_id=which, text="second")),
        when("mark", call("message", action="react", message_id=which, emoji="👍")),
        when("away", call("message", action="delete", message_id=which)),
    ) as scene, scene.daemon():  # fmt: skip
        for count, word in enumerate(("begin", "change", "mark", "away"), 1):
            await way.say(word)
            await scene.answered(count)
            if way.has_chat:
                await eventually(lambda: way.shown().count("Done.") == count)  # noqa: B023 -- awaited here
                assert ("first" in way.shown()) is (word == "begin")
                assert ("second" in way.shown()) is (word in ("change", "mark"))
                assert word != "mark" or list(way.reactions()) == ["👍"]
        told = await scene.results()
        if way.has_chat:
            place = way.session
            assert told[0] == f"sent to {place}, message id {which}"
            assert told[1:] == [
                f"edited message {which}",
                f"reacted with 👍 to message {which}",
                f"deleted message {which}",
            ]
        else:
            assert told[0].startswith("shown in this conversation") and "  first" in way.shown()
            assert all("there is no chat to" in result and "in a terminal" in result for result in told[1:])


async def test_another_chat_is_written_to_once_somebody_has_agreed(way: Way) -> None:
    channel, chat = way.other
    writes = when("go", call("message", action="send", channel=channel, chat_id=chat, text="good morning"))
    async with opened(way, writes) as scene, scene.daemon():
        await way.say("go")
        await way.asked("wants to send this to")
        assert way.there() == []
        await way.choose("wants to send this to", "Allow once")
        await scene.answered()
        assert way.there() == ["From Ann: good morning"]
        assert (await scene.results())[0].startswith(f"sent to {channel}:{chat}, message id ")


async def test_a_refusal_is_told_to_the_model_in_words(way: Way) -> None:
    # Where nothing can be refused, no message can be changed either.
    given: Json = {"action": "send"} if way.has_chat else {"action": "edit", "message_id": "1"}
    async with opened(way, when("go", call("message", text="hello", **given))) as scene, scene.daemon():
        way.close_chat()
        await way.say("go")
        await scene.answered()
        (told,) = await scene.results()
        assert "there is no" in told.lower() and "hello" not in way.shown()


# Ask


def marked(way: Way, sign: str, words: str = "") -> int:
    """Count the lines with a sign and these words."""
    return sum(sign in line and words in line for text in way.shown() for line in text.splitlines())


@pytest.mark.promise("P-approval")
async def test_a_call_runs_when_it_is_approved(any_way: Way) -> None:
    """By a button, and in words."""
    channel, chat = any_way.other
    first, second = (
        when(word, call("message", action="send", channel=channel, chat_id=chat, text=f"hello {word}"))
        for word in ("button", "words")
    )
    async with opened(any_way, first, second) as scene, scene.daemon():
        await any_way.say("button")
        await any_way.asked("hello button")
        await any_way.choose("hello button", "Allow once")
        await scene.answered()
        await eventually(lambda: marked(any_way, "✓") == 1)
        assert any_way.there() == ["From Ann: hello button"]
        await any_way.say("words")
        await any_way.say(f"/approve {await any_way.asked('hello words')}")
        await scene.answered(2)
        await eventually(lambda: marked(any_way, "✓") == 2)
        assert any_way.there() == ["From Ann: hello button", "From Ann: hello words"]


@pytest.mark.promise("P-approval")
async def test_a_denied_call_does_not_run_and_the_card_says_so(way: Way) -> None:
    channel, chat = way.other
    writes = when("go", call("message", action="send", channel=channel, chat_id=chat, text="hello"))
    async with opened(way, writes) as scene, scene.daemon():
        await way.say("go")
        await way.asked("wants to send this to")
        await way.choose("wants to send this to", "Deny")
        await scene.answered()
        await eventually(lambda: "✗" in "\n".join(way.shown()))
        assert way.there() == [] and "denied" in (await scene.results())[0]


BRANCH = {"title": "Branch", "question": "Which branch?", "options": ["main", "release"]}


ANSWERS = {"button": "release", "2": "release", "Release": "release", "the oldest one": "the oldest one"}


async def test_a_question_is_answered_by_its_button_its_number_its_text_or_freely(way: Way) -> None:
    questions = {how: f"Which branch of {number}?" for number, how in enumerate(ANSWERS, 1)}
    script = [when(f"go {how}", call("ask_user", questions=[BRANCH | {"question": questions[how]}])) for how in ANSWERS]
    async with opened(way, *script) as scene, scene.daemon():
        for count, (how, answer) in enumerate(ANSWERS.items(), 1):
            question = questions[how]
            await way.say(f"go {how}")
            await way.asked(question)
            await way.until(question, *(("Press a button",) if way.has_buttons else ("1. main", "2. release")))
            if how == "button":
                await way.choose(question, "release")
            elif how == "2" and way.has_buttons:
                await way.say("2")  # no number stands there
                await way.until("is ambiguous here")
                await way.say("release")
            else:
                await way.say(how)
            await scene.answered(count)
            assert (await scene.results())[-1] == f"{question}\n{answer}"
            same = list(ANSWERS.values())[:count].count(answer)
            await eventually(lambda: marked(way, "✓", answer) == same)  # noqa: B023 -- awaited here


async def test_where_only_the_options_count_other_words_leave_the_question_open(way: Way) -> None:
    async with opened(way, asking(BRANCH | {"allow_free_text": False})) as scene, scene.daemon():
        await way.say("go")
        await way.asked("Which branch?")
        await way.say("whatever you like")
        await way.say("main")
        await scene.answered()
        assert (await scene.results())[0] == "Which branch?\nmain"


@pytest.mark.parametrize("required", [True, False])
async def test_a_question_that_is_declined_fails_only_where_an_answer_is_required(way: Way, required: bool) -> None:
    async with opened(way, asking(BRANCH | {"required": required})) as scene, scene.daemon():
        await way.say("go")
        await way.say(f"/deny {await way.asked('Which branch?')}")
        await scene.answered()
        (told,) = await scene.results()
        assert (told == "Which branch?\nno answer") is not required
        await eventually(lambda: any("✗" in line and "kipped by" in line for line in way.shown()))


async def test_two_questions_are_asked_one_by_one(way: Way) -> None:
    colour = {"question": "Which colour?", "options": ["red", "blue"]}
    async with opened(way, asking(BRANCH, colour)) as scene, scene.daemon():
        await way.say("go")
        await way.asked("Which branch?")
        assert "Which colour?" not in "\n".join(way.shown())
        await way.choose("Which branch?", "main")
        await way.asked("Which colour?")
        await way.say("blue")
        await scene.answered()
        assert await scene.results() == ["Which branch?\nmain\n\nWhich colour?\nblue"]


async def test_what_was_answered_elsewhere_is_closed_here_and_says_so(way: Way) -> None:
    channel, chat = way.other
    writes = when("go", call("message", action="send", channel=channel, chat_id=chat, text="hello"))
    async with opened(way, writes) as scene, scene.daemon():
        await way.say("go")
        await scene.decide_elsewhere(await way.asked("wants to send this to"), "deny")
        await scene.answered()
        await eventually(lambda: any("✗" in line and "enied by" in line for line in way.shown()))
        assert way.there() == []


@pytest.mark.promise("P-parked")
async def test_a_question_can_be_answered_after_a_restart(any_way: Way) -> None:
    async with opened(any_way, asking(BRANCH)) as scene:
        async with scene.daemon():
            await any_way.say("go")
            await any_way.asked("Which branch?")
        async with scene.daemon():
            await any_way.choose("Which branch?", "main")
            await scene.answered()
            assert await scene.results() == ["Which branch?\nmain"]


# Media


async def test_a_file_of_the_workspace_is_sent(way: Way) -> None:
    sends = when("go", call("message", action="send", media_path="report.csv", text="As you wished"))
    async with opened(way, sends) as scene, scene.daemon():
        scene.workspace.mkdir(parents=True, exist_ok=True)
        (scene.workspace / "report.csv").write_bytes(b"a,b\n1,2\n")
        await way.say("go")
        await scene.answered()
        assert list(way.files()) == [("report.csv", b"a,b\n1,2\n")]
        assert "As you wished" in [line.strip() for line in way.shown()]
        if not way.has_chat:
            assert (
                "  ▸ report.csv · 8 B" in way.shown() and f"    goclaw open --user {way.key} report.csv" in way.shown()
            )


@pytest.mark.promise("P-files-given")
async def test_a_file_that_the_answer_names_comes_with_it_once(any_way: Way) -> None:
    """Also where a call of the same turn sent it before."""
    sends = when("both", call("message", action="send", media_path="boats.csv"))
    named = "[Boats](boats.csv), drawn: ![plot](out/plot.png). Not [this](../secret.txt), nor `[x](other.csv)`."
    script = ({"when": "go", "text": named}, sends, {"when": "sent to", "text": "[All](boats.csv) of them."})
    async with opened(any_way, *script) as scene, scene.daemon():
        (scene.workspace / "out").mkdir(parents=True, exist_ok=True)
        (scene.workspace / "boats.csv").write_bytes(b"Kiel\n")
        (scene.workspace / "other.csv").write_bytes(b"Aalborg\n")
        (scene.workspace / "out" / "plot.png").write_bytes(PICTURE)
        (scene.workspace.parent / "secret.txt").write_bytes(b"secret")
        await any_way.say("go")
        await scene.answered()
        await eventually(lambda: len(any_way.files()) == 2)
        assert [content for _, content in any_way.files()] == [b"Kiel\n", PICTURE]
        if any_way.has_chat:
            await any_way.say("both")
            await any_way.until("of them")
            await any_way.say("end")  # behind all that the turn before sends
            await any_way.until("Done.")
            assert [name for name, _ in any_way.files()][2:] == ["boats.csv"]


async def test_a_picture_and_a_document_reach_the_workspace_and_the_model(way: Way) -> None:
    if not way.takes_files:
        pytest.skip("in a terminal, files are named and not sent: the workspace is at hand")
    async with opened(way, {"when": "Wensleydale", "text": "A list of cheese."}) as scene, scene.daemon():
        await way.send_file("cheese.txt", "text/plain", b"Wensleydale\nGouda\n")
        await way.until("A list of cheese.")
        await way.send_file("photo.png", "image/png", PICTURE)
        await scene.answered(2)
        rows = await scene.app.sessions.ports.store.transcripts.history(way.session, 0, 100)
        assert any(getattr(row.message, "images", ()) for row in rows)
        assert (scene.workspace / "inbox" / "cheese.txt").read_bytes() == b"Wensleydale\nGouda\n"


@pytest.mark.promise("P-artifacts")
async def test_what_a_tool_keeps_for_people_reaches_them(any_way: Way) -> None:
    async with opened(any_way, when("go", call("chart"))) as scene, scene.daemon():
        await any_way.say("go")
        await scene.answered()
        assert json.loads(await any_way.kept()) == {"rows": [BOATS]}
        assert await scene.results() == ["drawn"]


# Progress


async def seen(way: Way, *words: str) -> None:
    await eventually(lambda: all(word in way.progress() for word in words))


async def test_a_call_is_shown_while_it_runs_and_what_came_of_it_after(any_way: Way) -> None:
    # The model takes a moment for its next call: what came of the last one is read meanwhile.
    next_call = when("Kiel", call("row", 2, harbour="Aalborg"), seconds=any_way.moment)
    calls = when("go", call("row", harbour="Kiel")), next_call
    async with opened(any_way, *calls) as scene, scene.daemon():
        await any_way.say("go")
        await seen(any_way, "Rowing to Kiel")
        assert "Reached Kiel" not in any_way.progress()
        harbours["Kiel"].set()
        await seen(any_way, "Reached Kiel", "Rowing to Aalborg")
        harbours["Aalborg"].set()
        await scene.answered()


async def test_calls_that_run_side_by_side_are_all_shown(way: Way) -> None:
    both = when("go", call("row", 1, harbour="Kiel"), call("row", 2, harbour="Aalborg"))
    async with opened(way, both) as scene, scene.daemon():
        await way.say("go")
        await seen(way, "Rowing to Aalborg")
        harbours["Aalborg"].set()
        await seen(way, "Rowing to Kiel")
        harbours["Kiel"].set()
        await scene.answered()
        assert sorted(await scene.results()) == ["Aalborg", "Kiel"]


async def test_what_an_agent_does_that_a_call_has_started_is_shown(way: Way) -> None:
    starts = when("go", call("agent", task="Find a boat", description="Boats"))
    async with opened(way, starts, when("Find a boat", call("row", 2, harbour="Kiel"))) as scene, scene.daemon():
        await way.say("go")
        await seen(way, "Boats", "Rowing to Kiel")
        harbours["Kiel"].set()
        await scene.answered()
        assert await scene.results() == ["Done."]


async def test_the_list_of_what_is_to_be_done_is_shown_as_it_changes(way: Way) -> None:
    todos = [{"content": "Caulk", "status": "completed"}, {"content": "Paint", "status": "in_progress"}]
    listing = when("go", call("todo_write", 1, todos=todos)), when("1 of 2", call("row", 2, harbour="Kiel"))
    async with opened(way, *listing) as scene, scene.daemon():
        await way.say("go")
        await seen(way, "Paint", "Rowing to Kiel")
        harbours["Kiel"].set()
        await scene.answered()


@pytest.mark.promise("P-tasks")
async def test_the_end_of_a_background_task_is_told(way: Way) -> None:
    runs = when("go", call("exec", command="true", run_in_background=True))
    settings = {"tools": {"exec": {"sandbox": "off"}}, "policy": {"auto_allow": ["exec"]}}
    async with opened(way, runs, **settings) as scene, scene.daemon():
        await way.say("go")
        await scene.answered()
        await way.until("Background task task-", "true", ") completed")
        assert (await scene.results())[0].startswith("started task-")

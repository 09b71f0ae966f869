"""Failures of summaries are told once, in one sentence, with the remedy: who watches, and the chat that met it."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from goclaw.channels.base import Doubt
from goclaw.common.core.events import LOCAL, Actor, Address, Inbound
from goclaw.conversation.agent.context.summary import SYSTEM
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import ModelEvent, Request
from goclaw.llm.scripted import Answer, ScriptedModel
from tests.conversation.sessions.looking import SUMMARY, notices, talk
from tests.harness import Core, World
from tests.kills import recorded

SMALL: dict[str, Any] = {"compaction": {"max_messages": 5, "min_messages": 2}}
GONE = "Ollama does not answer at http://127.0.0.1:1; start it (`ollama serve`) or set providers.ollama.base_url"
DOWN = Answer(error=ModelErrorKind.NETWORK, message=GONE)
LONG = f"question {'x' * 2_000}"
"""Without it, a compaction would free next to nothing."""
TROUBLE = Answer(error=ModelErrorKind.SERVER, message="trouble")
BEGUN = f"The summary model does not work: ollama:qwen2.5:7b: {GONE}. The main model writes summaries instead."
GIVEN_UP = (
    f"The summary model does not work: ollama:qwen2.5:7b: {GONE}. The main model writes summaries instead; I will try "
    "it again in 30 min."
)
AGAIN = "The summary model writes summaries again."
LATER = "I will try again until a model can; nothing is lost."


class Main(ScriptedModel):
    """Answers people as the script says, and summarises as it is told to."""

    summarises = Answer(SUMMARY)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        if request.system == SYSTEM:
            return ScriptedModel([self.summarises], spec=self.spec).stream(request)
        return super().stream(request)


class Watched(World):
    """Every third turn compacts; the summary model is down until it is mended."""

    def __init__(self, folder: Path, *, main: Answer | None = None, **config: Any) -> None:
        self.clerk = ScriptedModel(rest=DOWN, spec="ollama:qwen2.5:7b")
        self.main = Main(rest=Answer("answer"))
        self.main.summarises = main or self.main.summarises
        super().__init__(folder, model=self.main, summary=self.clerk, **{**SMALL, **config})

    async def compact(self, core: Core) -> None:
        """Talk until a turn has compacted by itself."""
        before = await core.transcripts.compactions("memory:here")
        while await core.transcripts.compactions("memory:here") == before:
            await talk(core, LONG)

    def told(self) -> list[str]:
        """What the chat got beside answers."""
        return [text for text in self.texts() if text != "answer"]


def news(core: Core) -> list[str]:
    """What watchers were told beside what each compaction did."""
    return [text for text in notices(core) if not text.startswith("Compaction completed!")]


async def test_that_it_begins_is_told_once_and_that_it_is_given_up_to_who_watches(tmp_path: Path) -> None:
    world = Watched(tmp_path)
    async with world.running() as core:
        for expected in ([BEGUN], [BEGUN], [BEGUN, GIVEN_UP], [BEGUN, GIVEN_UP]):
            await world.compact(core)
            assert news(core) == expected
        assert world.told() == [BEGUN], "the chat of the turn that met it is not disturbed twice"
        world.clock.advance(30 * 60)
        await world.compact(core)
        assert len(world.clerk.requests) == 4 and news(core) == [BEGUN, GIVEN_UP], "a trial that fails is no news"


async def test_it_is_told_beside_the_answer_and_before_it(tmp_path: Path) -> None:
    world = Watched(tmp_path)
    async with world.running() as core:
        await world.compact(core)
    at = world.texts().index(BEGUN)
    assert world.texts()[at + 1].startswith("answer")
    assert [heard.delivery.address.chat for heard in world.room.all] == ["here"] * len(world.room.all)


async def test_that_all_is_well_again_is_told_who_watches_and_the_next_failure_is_news(tmp_path: Path) -> None:
    world = Watched(tmp_path)
    async with world.running() as core:
        for _ in range(3):
            await world.compact(core)
        world.clock.advance(30 * 60)
        world.clerk.rest = Answer(SUMMARY)
        await world.compact(core)
        assert news(core) == [BEGUN, GIVEN_UP, AGAIN]
        world.clerk.rest = DOWN
        await world.compact(core)
        assert news(core)[3:] == [BEGUN] and world.told() == [BEGUN, BEGUN]


async def test_one_failure_and_then_a_success_is_told_once(tmp_path: Path) -> None:
    world = Watched(tmp_path)
    async with world.running() as core:
        await world.compact(core)
        world.clerk.rest = Answer(SUMMARY)
        await world.compact(core)
        assert news(core) == world.told() == [BEGUN]


async def test_that_nobody_could_is_told_once_with_all_reasons(tmp_path: Path) -> None:
    world = Watched(tmp_path, main=TROUBLE)
    async with world.running() as core:
        for _ in range(3):
            await world.compact(core)
        expected = f"I could not summarise the conversation: ollama:qwen2.5:7b: {GONE}; scripted:test: trouble. {LATER}"
        assert world.told() == news(core) == [expected]
        world.main.summarises = Answer(SUMMARY)
        await world.compact(core)
        world.main.summarises = TROUBLE
        await world.compact(core)
        assert len(world.told()) == 2 and world.told()[1].startswith("I could not summarise the conversation:"), (
            "it is news again"
        )


async def test_what_was_told_is_remembered_over_a_restart(tmp_path: Path) -> None:
    world = Watched(tmp_path)
    async with world.running() as core:
        await world.compact(core)
    async with world.running() as core:
        await core.turns.restore()
        assert core.sessions.compactor.health.failures == 1
        await world.compact(core)
        assert news(core) == []
    assert world.told() == [BEGUN]


async def test_who_says_compact_reads_it_in_the_answer_and_nowhere_else(tmp_path: Path) -> None:
    world = Watched(tmp_path, compaction={})
    async with world.running() as core:
        await talk(core, *(LONG for number in range(4)), "/compact")
        assert news(core) == []
    text = world.texts()[-1]
    assert text.startswith("Compaction completed!\n") and text.endswith(f"\n\n{BEGUN}")
    assert len(world.told()) == 1


async def test_while_the_demo_answers_nobody_is_asked_for_a_summary(tmp_path: Path) -> None:
    world = Watched(tmp_path)
    world.main.spec = "demo"
    async with world.running() as core:
        await world.compact(core)
    assert world.told() == [f"I could not summarise the conversation. {LATER}"]


async def test_a_terminal_has_it_from_the_bus_alone(tmp_path: Path) -> None:
    world = Watched(tmp_path)
    actor = Actor("tui:here", "socket", owner=True)
    async with world.running() as core:
        for number in range(4):
            inbound = Inbound(f"socket:{number}", actor, "tui:here", LONG, Address(LOCAL, ""), 0.0)
            await core.gateway.accept(inbound)
            await core.settled()
        assert news(core) == [BEGUN]
    assert world.texts() == []


async def test_a_kill_after_it_was_told_does_not_tell_it_again(tmp_path: Path) -> None:
    world = Watched(tmp_path)
    async with world.running() as core:
        await talk(core, LONG, LONG, LONG)

    async def fourth(core: Core) -> None:
        await core.turns.restore()
        await core.say(LONG, message_id="fourth")
        await core.settled()

    moments = await recorded(world, fourth)
    for moment in moments:
        with moment.restored():
            async with world.running() as core:
                await core.settled()
                await fourth(core)
                assert await core.transcripts.compactions("memory:here") >= 1
            unmarked = [heard.delivery.text for heard in world.room.all if heard.doubt is Doubt.NONE]
            assert unmarked.count(BEGUN) <= 1
    assert moments[-1].write >= 8, "every write was tried"

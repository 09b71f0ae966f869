"""The chain on scripted models and a stepped clock."""

import asyncio
from collections.abc import Sequence

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import AskedModel, Emptiness, Restarted, Stop
from goclaw.llm.chain import FALLBACK, REPEATABLE, TRIES_PER_ANSWER, ModelChain
from goclaw.llm.scripted import Answer, ScriptedModel
from tests.llm.asking import Heard, ask, saying

KINDS = ModelErrorKind
QUESTION = saying("hi")
WELL = Answer("well")


def failing(kind: ModelErrorKind, *, text: str = "", retry_after: float | None = None) -> Answer:
    return Answer(text, error=kind, message=f"the words of {kind}", retry_after=retry_after)


class Chained:
    """A chain of two scripted models."""

    def __init__(self, first: Sequence[Answer], second: Sequence[Answer] = ()) -> None:
        self.clock = SteppedClock()
        self.first = ScriptedModel(first, spec="scripted:first", context_window=1_000, clock=self.clock)
        self.second = ScriptedModel(second, spec="scripted:second", context_window=500, clock=self.clock)
        self.notices: list[str] = []
        models = [self.first, self.second] if second else [self.first]
        self.chain = ModelChain(models, self.clock, self.notices.append)
        self.slept = 0.0

    async def ask(self) -> Heard:
        """Ask, moving the clock whenever the chain waits."""
        async with asyncio.timeout(10):
            asking = asyncio.create_task(ask(self.chain, QUESTION))
            while not asking.done():
                await asyncio.sleep(0)
                if self.clock.sleepers:
                    self.clock.advance(0.5)
                    self.slept += 0.5
            return await asking

    @property
    def requests(self) -> tuple[int, int]:
        return len(self.first.requests), len(self.second.requests)


@pytest.mark.promise("P-model-fallback")
@pytest.mark.parametrize("kind", sorted(REPEATABLE))
async def test_trouble_before_any_text_is_repeated_and_never_seen(kind: ModelErrorKind) -> None:
    chained = Chained([failing(kind), failing(kind), WELL])
    heard = await chained.ask()
    assert heard.text == "well"
    assert not any(isinstance(event, Restarted) for event in heard.events)
    assert (chained.requests[0], chained.slept) == (3, 3.0)


class Watched:
    """A watch that keeps what it is told."""

    def __init__(self) -> None:
        self.begun: list[AskedModel] = []
        self.over: list[AskedModel] = []

    def on_request(self, request: AskedModel) -> None:
        self.begun.append(request)

    def on_end(self, request: AskedModel) -> None:
        self.over.append(request)


async def test_a_watch_is_told_of_every_request_and_how_it_ended() -> None:
    chained, watch = Chained([failing(KINDS.AUTH)], [failing(KINDS.NETWORK), WELL]), Watched()
    chained.chain = ModelChain(chained.chain.models, chained.clock, watches=[watch])
    heard = await chained.ask()
    assert watch.begun == watch.over
    assert [(each.spec, each.number, each.failure) for each in watch.over] == [
        ("scripted:first", 1, "auth"),
        ("scripted:second", 2, "network"),
        ("scripted:second", 3, ""),
    ]
    assert [each.answer for each in watch.over] == [None, None, heard.finished]


async def test_a_watch_is_told_of_a_request_that_its_caller_leaves() -> None:
    chained, watch = Chained([WELL]), Watched()
    chain = ModelChain(chained.chain.models, chained.clock, watches=[watch])
    async with chain.stream(QUESTION) as events:
        await anext(events)
        assert (len(watch.begun), watch.over) == (1, [])
    assert [(each.answer, each.failure) for each in watch.over] == [(None, "")]


async def test_a_model_is_asked_three_times_and_its_own_error_is_raised() -> None:
    chained = Chained([failing(KINDS.SERVER)] * 9)
    heard = await chained.ask()
    assert chained.requests[0] == 3
    assert heard.failed.kind is KINDS.SERVER
    assert str(heard.failed) == "scripted:first: the words of server (3 tries)"


@pytest.mark.promise("P-model-fallback")
@pytest.mark.parametrize("kind", sorted(FALLBACK - {ModelErrorKind.LOADING}))
async def test_the_next_model_answers_when_the_first_cannot(kind: ModelErrorKind) -> None:
    chained = Chained([failing(kind)] * 3, [WELL])
    heard = await chained.ask()
    assert heard.finished.spec == "scripted:second"
    assert chained.requests == (3 if kind in REPEATABLE else 1, 1)
    assert chained.notices == [f"scripted:second answers instead of scripted:first ({kind})"]


@pytest.mark.parametrize("kind", sorted(set(ModelErrorKind) - FALLBACK))
async def test_a_question_that_is_wrong_is_asked_once_only(kind: ModelErrorKind) -> None:
    chained = Chained([failing(kind)], [WELL])
    heard = await chained.ask()
    assert heard.failed.kind is kind
    assert chained.requests == (1, 0)


async def test_the_last_error_names_every_model_and_why() -> None:
    chained = Chained([failing(KINDS.AUTH)], [failing(KINDS.NETWORK)] * 3)
    heard = await chained.ask()
    assert heard.failed.kind is KINDS.AUTH
    assert str(heard.failed) == (
        "no model could answer:\n- scripted:first: the words of auth\n- scripted:second: the words of network (3 tries)"
    )


async def test_all_models_together_get_six_requests_at_most() -> None:
    clock = SteppedClock()
    models = [ScriptedModel([failing(KINDS.RATE)] * 9, spec=f"scripted:{number}") for number in range(4)]
    async with asyncio.timeout(10):
        asking = asyncio.create_task(ask(ModelChain(models, clock), QUESTION))
        while not asking.done():
            await asyncio.sleep(0)
            clock.advance(1)
    assert sum(len(model.requests) for model in models) == TRIES_PER_ANSWER


@pytest.mark.promise("P-model-fallback")
async def test_after_a_cut_the_answer_starts_anew_once_and_says_so_first() -> None:
    chained = Chained([failing(KINDS.TRUNCATED, text="half"), Answer("whole")])
    heard = await chained.ask()
    restarts = [number for number, event in enumerate(heard.events) if isinstance(event, Restarted)]
    assert len(restarts) == 1
    assert heard.events[restarts[0]] == Restarted("truncated")
    assert "".join(getattr(event, "text", "") for event in heard.events[restarts[0] :]) == "whole"


async def test_a_second_cut_ends_the_attempt_with_the_partial_shown() -> None:
    chained = Chained([failing(KINDS.TRUNCATED, text="half")] * 3, [WELL])
    heard = await chained.ask()
    assert heard.failed.partial
    assert chained.requests == (2, 0)


async def test_a_cut_on_the_last_try_goes_on_with_the_next_model() -> None:
    first = [failing(KINDS.RATE), failing(KINDS.RATE), failing(KINDS.NETWORK, text="half")]
    chained = Chained(first, [WELL])
    heard = await chained.ask()
    assert heard.finished.spec == "scripted:second"
    assert Restarted("network") in heard.events


async def test_the_wish_of_the_server_is_honoured_within_bounds() -> None:
    patient = Chained([failing(KINDS.RATE, retry_after=20), WELL])
    await patient.ask()
    assert patient.slept == 20
    hurried = Chained([failing(KINDS.RATE, retry_after=600), WELL], [WELL])
    heard = await hurried.ask()
    assert (heard.finished.spec, hurried.slept) == ("scripted:second", 0)


@pytest.mark.promise("P-model-fallback")
async def test_a_model_that_failed_rests_longer_each_time_and_is_asked_again_when_the_time_is_over() -> None:
    chained = Chained([failing(KINDS.AUTH), failing(KINDS.AUTH), WELL, failing(KINDS.AUTH)], [WELL] * 9)
    assert (await chained.ask()).finished.spec == "scripted:second"
    chained.clock.advance(59)
    assert chained.chain.spec == "scripted:second"
    assert (await chained.ask()).finished.spec == "scripted:second"
    assert chained.requests[0] == 1
    chained.clock.advance(1)
    assert (await chained.ask()).finished.spec == "scripted:second"
    assert chained.requests[0] == 2
    chained.clock.advance(119)
    assert chained.chain.spec == "scripted:second"
    chained.clock.advance(1)
    assert (await chained.ask()).finished.spec == "scripted:first"
    assert chained.notices[-1] == "scripted:first answers again"
    assert (await chained.ask()).finished.spec == "scripted:second"
    chained.clock.advance(60)
    assert chained.chain.spec == "scripted:first"


async def test_a_lone_model_is_asked_again_at_once_even_while_it_rests() -> None:
    chained = Chained([failing(KINDS.AUTH), WELL])
    await chained.ask()
    assert (await chained.ask()).text == "well"


async def test_the_window_is_that_of_the_model_that_would_be_asked_now() -> None:
    chained = Chained([failing(KINDS.AUTH)], [WELL])
    assert chained.chain.context_window == 1_000
    await chained.ask()
    assert chained.chain.context_window == 500


async def test_leaving_the_chain_closes_the_model_below() -> None:
    chained = Chained([WELL])
    async with chained.chain.stream(QUESTION) as events:
        await anext(events)
    assert chained.first.closed == 1


@pytest.mark.parametrize(
    ("answer", "empty", "requests"),
    [
        (Answer(stop=Stop.REFUSAL), Emptiness.REFUSED, 1),
        (Answer(stop=Stop.FILTERED), Emptiness.FILTERED, 1),
        (Answer(stop=Stop.WINDOW), Emptiness.WINDOW, 1),
        (Answer(stop=Stop.MALFORMED), Emptiness.MALFORMED, 2),
        (Answer(stop=Stop.LOADED), Emptiness.LOADING, 2),
        (Answer(thinking="Hm."), Emptiness.THOUGHT, 2),
        (Answer(" \n"), Emptiness.EMPTY, 2),
    ],
)
async def test_why_an_answer_is_empty_is_known_and_it_is_asked_for_again_where_that_helps(
    answer: Answer, empty: Emptiness, requests: int
) -> None:
    chained = Chained([answer, answer])
    assert (await chained.ask()).finished.empty is empty
    assert chained.requests == (requests, 0)


async def test_the_model_that_would_be_asked_learns_its_window() -> None:
    class Tiny(ScriptedModel):
        looks = 0

        async def look(self) -> None:
            self.looks += 1

    tiny, other, clock = Tiny([WELL]), Tiny([WELL]), SteppedClock()
    await ModelChain([tiny, other], clock).look()
    assert (tiny.looks, other.looks) == (1, 0), "a server that is not asked keeps nobody waiting"
    await ModelChain([ScriptedModel([WELL]), other], clock).look()
    assert other.looks == 0

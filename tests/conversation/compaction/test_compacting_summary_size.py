"""A summary of any length: a model with a small window answers all the same."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.messages import UserMessage
from goclaw.conversation.agent.context.compaction import STUB
from goclaw.conversation.agent.context.summary import ANSWER_SHARE, CUT_HERE
from goclaw.durable.store.open import open_database
from goclaw.durable.store.transcripts import Origin, StoredCompaction, Transcripts, rows_of
from goclaw.llm.base import ChatModel, ModelPorts
from goclaw.llm.open import find_provider
from goclaw.llm.scripted import Answer, ScriptedModel
from goclaw.llm.token_counts import estimate_request, estimate_text
from tests.conversation.sessions.failing_models import says
from tests.conversation.sessions.looking import HERE, SUMMARY, said, talk, window_of
from tests.harness import World
from tests.lanes import repeats
from tests.llm.asking import model_ports
from tests.llm.fake_provider import fake_provider, lines
from tests.llm.wires import OLLAMA

WINDOW = 8_192
BUDGET = WINDOW // ANSWER_SHARE
NUMBERED = " ".join(f"item-{number} costs {number * 7}." for number in range(4_000))
"""A summary as a model with a large window may write it: some 30,000 tokens."""
TEXTS = st.one_of(
    st.tuples(st.text(min_size=1), st.integers(1, 60_000)).map(lambda it: (it[0] * it[1])[: 4 * it[1]]),
    st.lists(st.from_regex(r"[a-z]{1,8}/[a-z]{1,8}\.py|[0-9]{6,40}", fullmatch=True)).map(" ".join),
    st.just(NUMBERED),
)


async def seed(folder: Path, summary: str, *, owed: bool = False) -> None:
    """A conversation on the disk that a model with a larger window has summarised."""
    world = World(folder)
    world.prepare()
    async with open_database(folder / "goclaw.db") as database:
        transcripts = Transcripts(database)
        asked = rows_of(UserMessage("What do we know?"), Origin(HERE, "turn-0", "user", 0.0, "tui:here"))
        written = await database.write(transcripts.ensure_session(HERE, 0.0), *asked)
        row = written[-1].lastrowid
        await transcripts.add_compaction(HERE, StoredCompaction(summary, "LLM", row, 40_000, 31_000, 0.0, owed))


def ollama(url: str, ports: ModelPorts) -> ChatModel:
    return find_provider("ollama").open(
        "ollama:small", ProviderSettings(base_url=url), ModelOptions(max_output=500, context_window=WINDOW), ports
    )


@pytest.mark.promise("P-context-fits")
@pytest.mark.parametrize("owed", [False, True], ids=["written", "owed"])
async def test_a_small_model_goes_on_where_a_large_one_left_a_long_summary(tmp_path: Path, owed: bool) -> None:
    line = STUB.format(count=900)
    await seed(tmp_path, f"{NUMBERED}\n\n{line}" if owed else NUMBERED, owed=owed)
    async with fake_provider() as server, model_ports(SteppedClock()) as ports:
        server.routes["/api/show"] = lines({"capabilities": ["completion"], "model_info": {}})
        server.will(says(OLLAMA, "Still here."))
        # The summariser would be the same model, whose window is too small to read that: nobody can help.
        world = World(tmp_path, model=ollama(server.url, ports))
        async with world.running() as core:
            await talk(core, "And now?", "Really?")
            shown = (await window_of(core)).summary
    assert world.texts() == ["Still here.", "Still here."]
    assert "item-17 costs 119." in shown and "item-3999" not in shown
    assert (line in shown) is owed and CUT_HERE in shown


async def write_and_go_on(folder: Path, summary: str) -> tuple[World, StoredCompaction]:
    """Have the summary written by /compact, then go on with a small model; returns what was stored."""
    small = ScriptedModel(rest=Answer("Well."), context_window=WINDOW)
    world = World(folder, model=small, summary=ScriptedModel(rest=Answer(summary)))
    async with world.running() as core:
        await talk(core, "one", "two", "three", "/compact", "four")
        stored, _ = await core.transcripts.context(HERE)
    assert stored is not None
    assert estimate_request(small.requests[-1]) < WINDOW
    return world, stored


@pytest.mark.promise("P-context-fits")
async def test_a_summary_that_is_too_long_is_stored_cut_with_the_names_of_what_was_said(tmp_path: Path) -> None:
    world, stored = await write_and_go_on(tmp_path, f"About src/deep/thing.py. {NUMBERED}")
    assert estimate_text(stored.summary) <= BUDGET and stored.source == "LLM"
    assert stored.summary.startswith("About src/deep/thing.py. item-0 costs 0.")
    assert CUT_HERE in stored.summary
    assert world.texts()[-1] == "Well."


@pytest.mark.deep
@pytest.mark.promise("P-context-fits")
@pytest.mark.timeout(300)
def test_no_summary_whatever_it_says_and_however_long_locks_a_session() -> None:
    @settings(max_examples=repeats(15, 200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(TEXTS)
    def check(summary: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            world, stored = asyncio.run(write_and_go_on(Path(folder), summary))
        assert estimate_text(stored.summary) <= BUDGET
        assert world.texts()[-1] == "Well."

    check()


async def test_a_summary_that_fits_stays_as_it_was_written(tmp_path: Path) -> None:
    await seed(tmp_path, SUMMARY)
    small = ScriptedModel(rest=Answer("Well."), context_window=WINDOW)
    async with World(tmp_path, model=small).running() as core:
        await talk(core, "And now?")
        assert (await window_of(core)).summary == SUMMARY
    assert SUMMARY in said(small.requests[-1])

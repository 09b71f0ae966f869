"""What a session cost, in words and in numbers."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from goclaw.common.core.events import Question, Todo
from goclaw.conversation.turns.costs import cost_in_words
from goclaw.durable.store.spending import Spending, Spent
from tests.harness import OWNER, World

SESSION = "memory:here"


@pytest.mark.parametrize(
    ("spent", "words"),
    [
        (Spent(), "nothing (no requests yet)"),
        (Spent(requests=1, cost=0.4249), "$0.42 (1 request)"),
        (Spent(requests=12, cost=0.42, unpriced=3), "$0.42 (12 requests, 3 of unknown price)"),
        (Spent(requests=2, unpriced=2), "unknown (2 requests, of unknown price)"),
        (Spent(requests=1_200, cost=1_234.5), "$1,234.50 (1,200 requests)"),
        (Spent(requests=1, cost=0.0004), "$0.0004 (1 request)"),
        (Spent(requests=1), "$0.00 (1 request)"),
    ],
)
def test_the_cost_in_words_says_how_sure_it_is(spent: Spent, words: str) -> None:
    assert cost_in_words(spent) == words


async def test_the_numbers_have_the_cost_and_the_tokens_of_this_session_alone(tmp_path: Path) -> None:
    async with World(tmp_path).running() as core:
        before = await core.gateway.status(SESSION, OWNER)
        rows = [("a", SESSION, 0.25), ("b", SESSION, None), ("c", "memory:elsewhere", 8.0)]
        for turn, session, cost in rows:
            row = Spending.row(session, turn, "answer", "m", tokens=(100, 10, 1, 0), cost=cost, at=0.0)
            await core.database.write(row)
        after = await core.gateway.status(SESSION, OWNER)
    assert before["cost"] is None
    assert after["cost"] == 0.25
    assert after["spent"] == {"requests": 2, "unpriced": 1, "input": 200, "output": 20, "cache_read": 2}
    assert "  Cost so far: $0.25 (2 requests, 1 of unknown price)" in after["text"]


async def test_what_changes_while_a_client_connects_is_in_what_the_client_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with World(tmp_path).running() as core:
        session = await core.sessions.contexts.session(SESSION)
        others = core.sessions.inspection.context.schedules.scheduler.others
        read = others.questions_in

        async def read_slowly(key: str) -> Sequence[Question]:
            found = await read(key)
            session.settings.todos = (Todo("Look", "pending"),)
            return found

        monkeypatch.setattr(others, "questions_in", read_slowly)
        assert [todo.content for todo in (await core.gateway.now(SESSION)).todos] == ["Look"]

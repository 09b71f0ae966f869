"""How much a plain turn has Postgres do: its statements and transactions are counted in Postgres's own log."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.daemon import installation
from tests.acceptance.model import EchoModel
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram
from tests.postgres import LOGGED, Server, running
from tests.statement_log import counted, sent, transactions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ANN = 5
WARMING, TURNS = 7, 5
"""A statement is prepared at its sixth use."""
PLAIN = {"transactions": 5, "statements": 24}
"""Of a turn without tools in a conversation that goes on and is owned where the message came in, BEGIN and COMMIT
included: looks for albums around the message and for messages before it (2), the message with the person's words (8),
the answer with its delivery, cost and the turn's end (9), the receipt (5). A commit that raises them says by how much
and why."""


@pytest.fixture
def server() -> Iterator[Server]:
    with running(settings=LOGGED) as started:
        yield started


def since_message(server: Server, before: int) -> str:
    """The log from `before` on, once it has the receipt of what the person saw, which comes last; until then ""."""
    log = server.log()[before:]
    done = transactions(sent(log))
    return log if any(text.startswith("UPDATE deliveries") for texts in done for text in texts) else ""


async def test_a_plain_turn_on_postgres_does_no_more_than_the_bounds_say(
    folder: Path, telegram: FakeTelegram, model: EchoModel, server: Server
) -> None:
    turns = list[Counter[str]]()
    log = ""
    async with installation(folder / "one", telegram, model.url, store=server.url) as home:
        home.write_users({f"telegram:{ANN}": {"name": "Ann"}})
        await home.start(telegram)
        for number in range(WARMING + TURNS):
            before = len(server.log())
            await telegram.world.say(f"m{number} plain", user=ANN)
            await telegram.wait_sent(ANN, number + 1)
            log = await eventually(partial(since_message, server, before))
            turns.append(counted(log))
        assert await home.stop() == 0
    least = {kind: min(turn[kind] for turn in turns[WARMING:]) for kind in PLAIN}
    done = "\n".join(" ; ".join(text[:60] for text in each) for each in transactions(sent(log)))
    assert all(least[kind] <= bound for kind, bound in PLAIN.items()), f"{least} of {PLAIN}:\n{done}"
    assert all("pg_notify" not in text for each in transactions(sent(log)) if len(each) > 1 for text in each), (
        "a commit with a NOTIFY in it waits for those of all other processes"
    )
    assert least["transactions"] >= 3, "what is not counted any more does not pass for work that is not done"

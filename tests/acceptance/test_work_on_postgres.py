"""How much a plain turn has Postgres do: its statements and transactions are counted in Postgres's own log."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.daemon import installation, replicas_on
from tests.acceptance.model import EchoModel
from tests.acceptance.waiting import clock, eventually
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


IDLE_COMMITS = 5.0
"""Of a gateway without work, a second; Postgres counts each look as one, too."""
LEFT_SECONDS, IDLE_SECONDS, WAIT_SECONDS = 20.0, 30.0, 60.0
"""After an answer, until its conversation has been let go, and Postgres has counted all; for which is counted; at most
for the answer."""


@pytest.fixture
def server() -> Iterator[Server]:
    with running(settings=LOGGED) as started:
        yield started


def commits(server: Server) -> int:
    """The transactions that Postgres has counted in its database."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        [counted] = connection.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
    return int(counted[0])


def since_message(server: Server, before: int) -> str:
    """The log from `before` on, once it has the receipt of what the person saw, which comes last; until then ""."""
    log = server.log()[before:]
    done = transactions(sent(log))
    return log if any(text.startswith("UPDATE deliveries") for texts in done for text in texts) else ""


async def test_a_plain_turn_on_postgres_does_no_more_than_the_bounds_say(
    folder: Path, telegram: FakeTelegram, model: EchoModel, server: Server
) -> None:
    turns = list[tuple[Counter[str], str]]()
    async with installation(folder / "one", telegram, model.url, store=server.url) as home:
        home.write_users({f"telegram:{ANN}": {"name": "Ann"}})
        await home.start(telegram)
        for number in range(WARMING + TURNS):
            before = len(server.log())
            await telegram.world.say(f"m{number} plain", user=ANN)
            await telegram.wait_sent(ANN, number + 1)
            log = await eventually(partial(since_message, server, before))
            turns.append((counted(log), log))
        assert await home.stop() == 0
    least = {kind: min(turn[kind] for turn, _ in turns[WARMING:]) for kind in PLAIN}
    # Where the machine stood still meanwhile, the conversation was let go, and there is more in the log.
    log = next(log for turn, log in turns[WARMING:] if turn["transactions"] == least["transactions"])
    done = "\n".join(" ; ".join(text[:60] for text in each) for each in transactions(sent(log)))
    assert all(least[kind] <= bound for kind, bound in PLAIN.items()), f"{least} of {PLAIN}:\n{done}"
    assert all("pg_notify" not in text for each in transactions(sent(log)) if len(each) > 1 for text in each), (
        "a commit with a NOTIFY in it waits for those of all other processes"
    )
    assert least["transactions"] >= 3, "what is not counted any more does not pass for work that is not done"


@pytest.mark.long
async def test_an_idle_gateway_commits_at_most_five_times_a_second(
    folder: Path, telegram: FakeTelegram, model: EchoModel, server: Server
) -> None:
    users = {f"telegram:{ANN}": {"name": "Ann"}}
    async with replicas_on(server.url, folder, telegram, model.url, ("one", "two"), users) as gateways:
        for each in gateways:
            await each.start()
        await telegram.world.say("m1 plain", user=ANN)
        await eventually(lambda: "(end)" in str(telegram.sent(ANN)), WAIT_SECONDS)
        await clock.sleep(LEFT_SECONDS)
        before = commits(server)
        await clock.sleep(IDLE_SECONDS)
        rate = (commits(server) - before) / IDLE_SECONDS / len(gateways)
        for each in gateways:
            assert await each.stop() == 0
    assert 0.5 < rate <= IDLE_COMMITS, rate

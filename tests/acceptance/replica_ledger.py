"""The books of several daemons on one schema: those of one (`ledger`), and what only Postgres can say.

Each transaction of a daemon of `replica` says under which epoch it is written. A trigger, in a schema of its own,
compares that with the session's owner at that moment, whatever the daemon itself checks: so a fence that does not hold
is found, also where nothing came of it.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg

from goclaw.common.config.values import DEFAULT_SCHEMA
from tests.acceptance.blows import HOLE, RESET, RESTART
from tests.acceptance.daemon import Installation
from tests.acceptance.ledger import Outcome, close_chat, close_effects, unexpected
from tests.acceptance.people import People
from tests.acceptance.replica import FENCE
from tests.acceptance.scenes import OPEN_WORK
from tests.postgres import Server

WATCHED = ("steps", "messages", "compactions")
WATCH = f"""
CREATE SCHEMA books;
CREATE TABLE books.writes (
    at TIMESTAMPTZ DEFAULT clock_timestamp(), place TEXT, session TEXT, held TEXT, owner TEXT, operation TEXT, row_ TEXT
);
CREATE FUNCTION books.check_writer() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    written TEXT;
    owner BIGINT;
    held TEXT := coalesce(current_setting('{FENCE}', true), '');
BEGIN
    IF TG_TABLE_NAME = 'steps' THEN
        SELECT session INTO written FROM {DEFAULT_SCHEMA}.inbox WHERE id = NEW.turn;
    ELSE
        written := NEW.session;
    END IF;
    SELECT epoch INTO owner FROM {DEFAULT_SCHEMA}.session_owners WHERE session = written;
    IF held = '' OR (split_part(held, ' ', 2) = written AND split_part(held, ' ', 1) <> owner::text) THEN
        INSERT INTO books.writes (place, session, held, owner, operation, row_)
        VALUES (TG_TABLE_NAME, written, held, owner::text, TG_OP, left(to_jsonb(NEW)::text, 200));
    END IF;
    RETURN NEW;
END $$;
"""  # noqa: S608  # our own words
_TRIGGER = (
    f"CREATE TRIGGER books BEFORE INSERT OR UPDATE ON {DEFAULT_SCHEMA}.%s "
    "FOR EACH ROW EXECUTE FUNCTION books.check_writer()"
)
_UNDER_OLD_EPOCH = """
SELECT place || ' of ' || session || ': ' || held || ', not ' || owner FROM books.writes WHERE held <> ''
"""
_UNFENCED = "SELECT operation || ' ' || place || ' ' || coalesce(session, '') FROM books.writes WHERE held = ''"
_USER_ROWS = """
SELECT turn || ' has ' || count(*) || ' rows of ' || step FROM messages WHERE role = 'user'
GROUP BY turn, step HAVING count(*) <> 1
"""
_RESULTS = """
SELECT turn || ' ' || call_id || ' has ' || count(*) FILTER (WHERE role = 'tool_result') || ' results' FROM messages
WHERE call_id IS NOT NULL GROUP BY turn, call_id
HAVING count(*) FILTER (WHERE role = 'tool_result') <> 1 OR count(*) <> 2
"""
_STUCK = """
SELECT 'session ' || i.session || ' (' || count(*) || ' turns) is owned by ' || coalesce(
    (SELECT o.replica FROM session_owners o JOIN replicas r ON r.id = o.replica WHERE o.session = i.session),
    'no process'
) FROM inbox i WHERE i.state <> 'done' GROUP BY i.session
"""
OWNER_OF = """
SELECT r.address FROM session_owners o JOIN replicas r ON r.id = o.replica WHERE o.session = '{session}'
"""
_JOBS = "SELECT lock || ' ' || status FROM procrastinate_jobs"
_SAID = "SELECT session, text FROM messages WHERE role = 'user' ORDER BY id"
_KEPT = (
    *("inbox", "steps", "messages", "deliveries", "session_owners", "replicas", "procrastinate_jobs"),
    *("procrastinate_workers", "books.writes"),
)
"""Tables that are kept where something is wrong."""


OUTAGE = "My database cannot be reached."
"""What people are told while Postgres is away."""
OUTAGES = {HOLE, RESET, RESTART}


@dataclass
class ReplicaOutcome(Outcome):
    """What the books of several daemons say."""

    troubles: dict[str, int] = field(default_factory=dict)
    """How often each thing happened that a daemon outlives."""
    refused_starts: int = 0
    """Starts while Postgres was away or cut off."""
    takeovers: int = 0
    """Sessions that were taken from another process, or anew."""
    presses: int = 0
    """Questions that were answered by a button."""
    paused_edits: int = 0
    """Pauses before which Telegram was made to ask for a wait before the next edit."""
    outage_notices: int = 0
    """Messages that say that the database cannot be reached, where that was so."""
    old_epochs: list[str] = field(default_factory=list)
    """Rows that were written under an epoch that had passed."""
    transcript_order: list[str] = field(default_factory=list)
    unfenced: dict[str, int] = field(default_factory=dict)
    """Rows of sessions that were written under no epoch at all."""

    @property
    def faults(self) -> list[str]:
        listed = {"under an old epoch": self.old_epochs, "out of order in the transcript": self.transcript_order}
        return [*super().faults, *(f"{name}: {', '.join(items[:10])}" for name, items in listed.items() if items)]


def connect(server: Server) -> "psycopg.Connection[tuple[Any, ...]]":
    """A connection past all proxies."""
    return psycopg.connect(server.url, options=f"-csearch_path={DEFAULT_SCHEMA}", autocommit=True, connect_timeout=5)


def watch(server: Server) -> None:
    """Have every row from here on compared with its session's owner; the schema has been made."""
    with connect(server) as connection:
        connection.execute(WATCH.encode())
        for table in WATCHED:
            connection.execute((_TRIGGER % table).encode())


def words(server: Server, query: str) -> list[str]:
    """The first column of a query."""
    with connect(server) as connection:
        return [str(row[0]) for row in connection.execute(query.encode())]


def open_work(server: Server) -> list[str]:
    """What the daemons have not finished."""
    return words(server, OPEN_WORK)


def jobs(server: Server) -> list[str]:
    """The jobs of sessions that wait or are worked on."""
    return words(server, _JOBS)


def old_epochs(server: Server) -> list[str]:
    """Rows that were written under an epoch that had passed."""
    return words(server, _UNDER_OLD_EPOCH)


def stuck(server: Server) -> list[str]:
    """Sessions that have work left, and which process owns them."""
    return words(server, _STUCK)


def close_books(
    found: ReplicaOutcome, people: People, homes: Sequence[Installation], workspace: Path, server: Server
) -> None:
    """Count everything into `found`; no daemon runs any more."""
    for chat in people.chats.values():
        close_chat(found, chat, people.seen(chat))
    close_effects(found, people, workspace)
    found.integrity = "ok"  # Postgres looks after its own
    found.unfinished += [*open_work(server), *stuck(server), *words(server, _USER_ROWS), *words(server, _RESULTS)]
    found.old_epochs += old_epochs(server)
    for written in words(server, _UNFENCED):
        found.unfenced[written] = found.unfenced.get(written, 0) + 1
    found.takeovers = int(words(server, "SELECT last_value FROM session_epochs")[0])
    found.transcript_order += disorder(server)
    if found.troubles.keys() & OUTAGES:
        found.outage_notices = len([text for text in found.strange if OUTAGE in text])
        found.strange = [text for text in found.strange if OUTAGE not in text]
    for home in homes:
        found.unexpected += unexpected(home)


def disorder(server: Server) -> list[str]:
    """Messages that stand twice in a transcript, or behind one that was written later."""
    said: dict[str, list[int]] = {}
    with connect(server) as connection:
        for session, text in connection.execute(_SAID.encode()):
            said.setdefault(session, []).extend(int(number) for number in re.findall(r"\bm(\d+)c\d+ \w", text))
    return [
        f"{session}: m{later} before m{earlier}"
        for session, numbers in said.items()
        for later, earlier in pairwise(numbers)
        if earlier <= later
    ]


def keep_tables(server: Server, folder: Path) -> None:
    """Write down what stands in the tables, for whoever looks for what went wrong."""
    with connect(server) as connection:
        for table in _KEPT:
            rows = connection.execute(f"SELECT to_jsonb(t) FROM {table} t".encode()).fetchall()  # noqa: S608  # our own
            (folder / f"{table}.jsonl").write_text("".join(f"{json.dumps(row[0])}\n" for row in rows))

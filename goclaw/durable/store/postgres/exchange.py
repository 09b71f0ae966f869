"""Messages between processes on one schema of Postgres, as notices (`notices`): in pieces where they are long.

They go out on one of the connections that read, each flush in a transaction of its own that waits for no disk. In a
transaction of the writer they would hold Postgres's one lock of all commits that notify while its disk works.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count

from goclaw.durable.store.database import Statement
from goclaw.durable.store.postgres.database import PostgresDatabase
from goclaw.durable.store.replicas import EVERYONE, Watch

TOPIC = "events"
"""Topic of notices for everyone; those for one process have its name behind it."""
PIECE_BYTES = 7_000
"""Bytes of a message in one notice, without its header: `notices.MAX_BYTES` in all."""
_SEND = Statement(
    "SELECT set_config('synchronous_commit', 'off', true), "
    "count(pg_notify(topic || '_' || md5(current_schema()), payload)) "
    "FROM unnest(CAST(:topics AS text[]), CAST(:payloads AS text[])) AS message(topic, payload)"
)
_WATCH = Statement(
    "INSERT INTO session_watches (session, replica, until) "
    "SELECT session, :replica, clock_timestamp() + make_interval(secs => :seconds) "
    "FROM unnest(CAST(:sessions AS text[])) AS wanted(session) "
    "ON CONFLICT (session, replica) DO UPDATE SET until = excluded.until"
)
_UNWATCH = Statement(
    "DELETE FROM session_watches WHERE replica = :replica AND session = ANY(CAST(:sessions AS text[]))"
)
_EXPIRE = Statement(
    "DELETE FROM session_watches WHERE (session, replica) IN "
    "(SELECT session, replica FROM session_watches WHERE until < clock_timestamp() FOR UPDATE SKIP LOCKED)"
)
_WATCHES = Statement(
    "SELECT session, replica FROM session_watches WHERE replica <> :replica AND until > clock_timestamp()"
)


class PostgresExchange:
    """Implements `store.replicas.Exchange`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._numbers = count(1)
        self._pieces: dict[str, list[str]] = {}
        """The pieces so far of a message that is not whole, by its sender and topic."""

    @property
    def replica(self) -> str:
        return self._database.replica

    def subscribe(self, heard: Callable[[str], None], missed: Callable[[], None]) -> None:
        def gather(payload: str) -> None:
            if (message := self._whole(payload)) is not None:
                heard(message)

        def reset() -> None:
            self._pieces.clear()
            missed()

        self._database.notices.subscribe(_topic(EVERYONE), gather, lambda: None)
        self._database.notices.subscribe(_topic(self.replica), gather, reset)

    async def send(self, messages: Sequence[tuple[str, str]]) -> None:
        notices = [(_topic(to), payload) for to, message in messages for payload in self._payloads(message)]
        if notices:
            topics, payloads = zip(*notices, strict=True)
            await self._database.read(_SEND(topics=list(topics), payloads=list(payloads)))

    async def watch(self, sessions: Collection[str], seconds: float) -> None:
        # In one order: two processes that renew would lock each other out.
        wanted = sorted(sessions)
        await self._database.write(_EXPIRE(), _WATCH(replica=self.replica, sessions=wanted, seconds=seconds))

    async def unwatch(self, sessions: Collection[str]) -> None:
        await self._database.write(_UNWATCH(replica=self.replica, sessions=sorted(sessions)))

    async def watches(self) -> Sequence[Watch]:
        found = await self._database.read(_WATCHES(replica=self.replica))
        return [Watch(row["session"], row["replica"]) for row in found]

    def _payloads(self, message: str) -> Iterator[str]:
        """Yield a message as notices. No two are equal: of equal ones in a transaction Postgres sends one."""
        number, pieces = next(self._numbers), list(_cut(message))
        for left, piece in zip(reversed(range(len(pieces))), pieces, strict=True):
            yield f"{self.replica} {number} {left} {piece}"

    def _whole(self, payload: str) -> str | None:
        """Return the message that a notice completes; None: it is not whole."""
        sender, number, left, piece = payload.split(" ", 3)
        key = f"{sender} {number}"
        if left != "0":
            self._pieces.setdefault(key, []).append(piece)
            return None
        return "".join([*self._pieces.pop(key, ()), piece])


def _topic(replica: str) -> str:
    return f"{TOPIC}_{replica}" if replica else TOPIC


def _cut(message: str) -> Iterator[str]:
    """Yield a message in pieces of so many bytes, cut between characters."""
    data = message.encode(errors="replace")
    begin = 0
    while begin < len(data) or not begin:
        end = begin + PIECE_BYTES
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[begin:end].decode()
        begin = end

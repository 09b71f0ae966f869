"""The outbox: promised deliveries reach their chat, in order, once.

A delivery is a row, committed together with the end of the turn that made it. The channel reports through a `Handover`
when it sends a part and when the part arrived; both are in the row (that the last one arrived: with the receipt). The
record on disk is never ahead of the chat, and lags by one part at most: the one that is marked as being sent. A
row found `sending` at start has one part that may or may not have arrived: that part is sent once more, and marked.
A delivery that its channel asks for immediately is promised as `sending`: one transaction, not two.
Only in this window can a message arrive twice; a service without idempotency keys leaves no better way.
"""

import asyncio
import json
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

from sqlalchemy import bindparam, delete, func, literal, or_, select, update
from structlog.contextvars import bound_contextvars, clear_contextvars

from goclaw.channels.base import Channel
from goclaw.common.core.clock import Backoff, Clock
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Address, Delivery, Receipt
from goclaw.common.core.fencing import AUTHORITY, Authority, Fence
from goclaw.common.core.records import record
from goclaw.common.core.supervise import ends_within, result_of, run_with_restarts, wait_without_cancelling
from goclaw.durable.engine.deliveries import DELIVERY, DeliveryProgress, mask, progress_of, word_about
from goclaw.durable.store.database import BoundStatement, Database, Row, Statement, insert_into
from goclaw.durable.store.dialect import contains, json_text
from goclaw.durable.store.ownership import OF_CHAT, Ownership, SoleOwner
from goclaw.durable.store.schema import deliveries
from goclaw.errors import DeliveryError, OwnershipLost, StateError

log = logging.getLogger(__name__)

T = TypeVar("T")

GIVE_UP_SECONDS = 24 * 3600.0
"""Seconds after which an undelivered answer is dropped with a log line: it is out of date by then."""
UNFORESEEN_TRIES = 5
"""Maximum unforeseen failures of a delivery; then it makes room for those behind it."""
KEEP_SECONDS = 7 * 24 * 3600.0
"""Seconds for which a delivery's receipt is remembered, so that the same id is not sent again."""

OWNER = "owner"
"""Key in a row's body: the session that has promised the delivery, where nothing else says that."""
RECALL_SECONDS = 0.5
"""Seconds between two looks for the receipt of what another process may send."""

_RECEIPT: Codec[Receipt] = Codec(Receipt)

_INSERT = insert_into(deliveries, "id", "channel", "chat", "body", "state", "created_at", ignore_conflict=True)
_SENT = Statement(
    update(deliveries)
    .where(deliveries.c.id == bindparam("of"))
    .values(state="sent", receipt=bindparam("receipt"), progress=bindparam("arrived"))
)
_FAILED = Statement(
    update(deliveries).where(deliveries.c.id == bindparam("of")).values(state="failed", error=bindparam("error"))
)
_IS_OPEN = or_(deliveries.c.state == "pending", deliveries.c.state == "sending")
_OPEN = Statement(select(deliveries).where(_IS_OPEN).order_by(deliveries.c.seq))
_OWNER = func.coalesce(
    json_text(deliveries.c.body, OWNER),
    func.nullif(json_text(deliveries.c.body, "session"), ""),
    literal(OF_CHAT) + deliveries.c.channel + ":" + deliveries.c.chat,
)
OPEN_OF = Statement(select(deliveries).where(_IS_OPEN, bindparam("owned") == _OWNER).order_by(deliveries.c.seq))
OPEN_SESSIONS = Statement(select(_OWNER.label("owned")).where(_IS_OPEN).distinct().order_by("owned"))
_ONE = Statement(select(deliveries).where(deliveries.c.id == bindparam("of")))
_OF_MESSAGE = Statement(
    select(deliveries.c.body).where(
        deliveries.c.channel == bindparam("at_channel"),
        deliveries.c.chat == bindparam("in_chat"),
        contains(deliveries.c.progress, bindparam("quoted")),
    )
)
_PRUNE = Statement(
    delete(deliveries).where(
        or_(deliveries.c.state == "sent", deliveries.c.state == "failed"), deliveries.c.created_at < bindparam("before")
    )
)

Chat = tuple[str, str]
"""The name of a channel and a chat there."""


@record
class Promise:
    """Deliveries promised by `rows` in one transaction; `Outbox.enqueue_progress` sends them once it is committed."""

    started: Sequence[DeliveryProgress]
    rows: Sequence[BoundStatement]
    durable: bool
    """Whether the disk must have the transaction before they begin: one of them is marked as being sent."""


def owned_as(delivery: Delivery) -> str:
    """Return the session that decides who sends a delivery promised under no fence: its owner does."""
    return delivery.session or f"{OF_CHAT}{delivery.address.channel}:{delivery.address.chat}"


class Outbox:
    """One queue per chat. Made by `open_outbox`."""

    def __init__(self, database: Database, channels: Mapping[str, Channel], clock: Clock, ownership: Ownership) -> None:
        self._database = database
        self.ownership = ownership
        self.channels = channels
        self._clock = clock
        self._queues: dict[Chat, deque[DeliveryProgress]] = {}
        self._resumed: set[str] = set()
        """Deliveries that `resume` queued: the task that committed one just before may try to queue it afterwards."""
        self._receipts: dict[str, asyncio.Future[Receipt]] = {}
        """Receipts that are waited for; removed when they are there."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._unforeseen: Counter[str] = Counter()
        self.counts: Counter[tuple[str, Literal["sent", "failed", "retried"]]] = Counter()
        """Deliveries since the start that ended so, and tries that are made again, by channel."""
        self._early: list[DeliveryProgress] | None = [] if ownership.sends_all else None
        """Deliveries promised before `resume`, which finds them in the database, too; None: since then, or where
        `send_unfinished` does that for each session."""
        self._promised: dict[int, set[str]] = {}
        """Ids that are promised or taken up under an epoch: they are in a queue here, will be, or have been sent."""

    def row(self, delivery: Delivery, *, marked: bool = False) -> BoundStatement:
        """Return the INSERT for the transaction that promises the delivery; `marked`: as being sent."""
        body = DELIVERY.to_json(delivery)
        if fence := AUTHORITY.get().fence:
            # Before it is committed: a look for what others promised finds it as soon as it is.
            self._promised.setdefault(fence.epoch, set()).add(delivery.id)
            if owned_as(delivery) != fence.session:
                body = json.dumps({**json.loads(body), OWNER: fence.session})
        return _INSERT(
            id=delivery.id,
            channel=delivery.address.channel,
            chat=delivery.address.chat,
            body=body,
            state="sending" if marked else "pending",
            created_at=self._clock.now(),
        )

    def prepare(self, deliveries: Sequence[Delivery]) -> Promise:
        """Prepare a promise of deliveries; a chat's first is marked as being sent if its channel asks immediately."""
        fence, taken, marks = AUTHORITY.get().fence, set(self._queues), list[bool]()
        is_ours = fence is not None or self.ownership.sends_all
        for delivery in deliveries:
            chat = _chat_of(delivery)
            marks.append(is_ours and chat not in taken and self._is_sent_first(delivery))
            taken.add(chat)
        promised = list(zip(deliveries, marks, strict=True))
        return Promise(
            [DeliveryProgress(delivery, self._database, fence=fence, marked=marked) for delivery, marked in promised],
            [
                *(self.row(delivery, marked=marked) for delivery, marked in promised),
                *([] if is_ours else self._request_owners(deliveries)),
            ],
            durable=any(marks),
        )

    def _is_sent_first(self, delivery: Delivery) -> bool:
        channel = self.channels.get(delivery.address.channel)
        if self._early is not None or channel is None or delivery.action != "send":
            return False
        return channel.capabilities.sends_at_once(delivery)

    async def promise(self, delivery: Delivery, *others: BoundStatement) -> bool:
        """Commit a delivery, together with other statements, and send it. False: its id was promised before."""
        # Goes on when the caller is cancelled: what is on disk must be in its queue, too.
        return await wait_without_cancelling(self._spawn(self._promise(delivery, others), f"promise {delivery.id}"))

    def enqueue(self, promised: Sequence[Delivery]) -> None:
        """Queue deliveries committed with `row`. Without an open channel they wait in the database for a start."""
        fence = AUTHORITY.get().fence
        if fence is None and not self.ownership.sends_all:
            self._spawn(self._wake_owners(promised), "wanting sessions of deliveries")
            return
        self.enqueue_progress([DeliveryProgress(delivery, self._database, fence=fence) for delivery in promised])

    def enqueue_progress(self, started: Sequence[DeliveryProgress]) -> None:
        """Queue the deliveries committed with the rows of a `Promise`, as `enqueue` does."""
        if self._early is not None:
            self._early.extend(started)
        else:
            new = [progress for progress in started if progress.delivery.id not in self._resumed]
            self._queue([progress for progress in new if self.ownership.sends_all or progress.fence is not None])

    async def send(self, delivery: Delivery, *others: BoundStatement) -> Receipt:
        """Promise a delivery and wait until the channel has it. The same id again returns the same receipt.

        Raises:
            DeliveryError: the channel refused it for good or cannot do it, or there is no such channel.
            StateError: it could not be promised, or another process sends it.
        """
        if self.ownership.sends_all or AUTHORITY.get().fence is not None:
            return await self._send(delivery, *others)
        sending = self._spawn(self._send(delivery, *others), f"send {delivery.id}")
        try:
            while not await ends_within(sending, self._clock, RECALL_SECONDS):
                await self._recall(delivery.id)
        finally:
            sending.cancel()
        return sending.result()

    def check(self, delivery: Delivery) -> None:
        """Raise DeliveryError where there is no such channel, or it cannot do what the delivery needs."""
        channel = self.channels.get(delivery.address.channel)
        if channel is None:
            raise DeliveryError(f"no channel named {delivery.address.channel} is connected", permanent=True)
        if missing := channel.capabilities.missing_for(delivery):
            raise DeliveryError(f"the channel {channel.name} cannot {missing}", permanent=True)

    async def _send(self, delivery: Delivery, *others: BoundStatement) -> Receipt:
        self.check(delivery)
        receipt = self._receipts.setdefault(delivery.id, asyncio.get_running_loop().create_future())
        if not await self.promise(delivery, *others):
            await self._recall(delivery.id)
        return await result_of(receipt)

    def report_failure_to_sender(self, delivery_id: str) -> None:
        """Report the failure of a delivery to the caller of `send` with its id, and not to its chat."""
        self._receipts.setdefault(delivery_id, asyncio.get_running_loop().create_future())

    async def resume(self) -> int:
        """Resume the deliveries that the last run left unfinished; returns how many."""
        rows = await self._database.read(_OPEN())
        early, self._early = self._early or [], None
        self._resumed = {row["id"] for row in rows}
        await self._send_unfinished(rows, None)
        self.enqueue_progress(early)
        return len(rows)

    async def _send_unfinished(self, rows: Sequence[Row], fence: Fence | None) -> None:
        """Send what another run of the daemon has promised, unless it is out of date by now."""
        for row in rows:
            progress = progress_of(row, self._database, fence)
            if self._clock.now() - row["created_at"] > GIVE_UP_SECONDS:
                with bound_contextvars(**_ids(progress.delivery)):
                    await self._fail(progress.delivery, "older than a day")
            else:
                self._queue([progress])

    async def send_unfinished(self, session: str, fence: Fence) -> int:
        """Send what others have promised for a session that this process owns; returns how many deliveries."""
        promised, taken = self._promised.setdefault(fence.epoch, set()), 0
        for row in await self._database.read(OPEN_OF(owned=session)):
            if row["id"] in promised:
                continue
            promised.add(row["id"])
            try:
                await self._send_unfinished([row], fence)
            except StateError:
                promised.discard(row["id"])
                raise
            taken += 1
        return taken

    def is_busy(self, fence: Fence) -> bool:
        """Whether something is being sent under a fence, or waits for it."""
        return any(progress.fence == fence for queue in self._queues.values() for progress in queue)

    def is_sending(self, fence: Fence) -> bool:
        """Whether a part is just being sent under a fence."""
        return any(queue[0].fence == fence and queue[0].is_being_sent for queue in self._queues.values() if queue)

    def leave(self, fence: Fence) -> None:
        """Send no more under a fence: another process does. Deliveries in progress meet the fence themselves."""
        self._promised.pop(fence.epoch, None)
        for queue in self._queues.values():
            for progress in [each for each in list(queue)[1:] if each.fence == fence]:
                queue.remove(progress)

    async def open_sessions(self) -> list[str]:
        """Return the sessions with deliveries that are not sent."""
        return [row["owned"] for row in await self._database.read(OPEN_SESSIONS())]

    async def sent_as(self, address: Address, message_id: str) -> Sequence[Delivery]:
        """Return the deliveries of this message of a chat; empty for other people's messages, and for old ones."""
        quoted = json.dumps(message_id)
        rows = await self._database.read(_OF_MESSAGE(at_channel=address.channel, in_chat=address.chat, quoted=quoted))
        return [DELIVERY.from_json(row["body"]) for row in rows if row["body"]]

    async def prune(self) -> None:
        """Forget receipts that are not asked for any more."""
        await self._database.write(_PRUNE(before=self._clock.now() - KEEP_SECONDS))

    def waiting(self) -> int:
        """Return the number of deliveries under way or waiting."""
        return sum(len(queue) for queue in self._queues.values())

    async def flush(self, seconds: float) -> bool:
        """Wait until everything is delivered, at most `seconds`. False: something is left for the next start."""
        if not self._tasks:
            return True
        _, pending = await asyncio.wait(set(self._tasks), timeout=seconds)
        return not pending

    async def close(self) -> None:
        """Stop sending; the rest stays in the database for the next start."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _request_owners(self, promised: Iterable[Delivery]) -> list[BoundStatement]:
        """Return the statements that have deliveries sent by the owners of their sessions."""
        return self.ownership.request(sorted(set(map(owned_as, promised))))

    async def _wake_owners(self, promised: Sequence[Delivery]) -> None:
        try:
            await self._database.write(*self._request_owners(promised))
        except StateError as error:
            log.warning("deliveries wait for a later look: %s", error)

    def _spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _promise(self, delivery: Delivery, others: Sequence[BoundStatement]) -> bool:
        fence, created = AUTHORITY.get().fence, False
        promised = self._promised.setdefault(fence.epoch, set()) if fence else set[str]()
        is_ours = delivery.id not in promised
        try:
            promise = self.prepare([delivery])
            [made, *_] = await self._database.write(*promise.rows, *others, durable=promise.durable)
            if made.rowcount == 1:
                self.enqueue_progress(promise.started)
                created = True
        finally:
            if is_ours and not created:
                promised.discard(delivery.id)
        if fence and is_ours and not created:
            # An owner before this one promised it, perhaps without sending it; a look for that has passed it over.
            await self.send_unfinished(fence.session, fence)
        return created

    async def _recall(self, delivery_id: str) -> None:
        """The receipt of a delivery that an earlier run sent; if it is still under way, the queue will give it."""
        for row in await self._database.read(_ONE(of=delivery_id)):
            if row["state"] == "sent":
                self._receive(delivery_id, _RECEIPT.from_json(row["receipt"]))
            elif row["state"] == "failed":
                self._receive(delivery_id, DeliveryError(row["error"], permanent=True))

    def _receive(self, delivery_id: str, outcome: Receipt | DeliveryError | OwnershipLost) -> None:
        """Wake the callers that wait for a delivery."""
        receipt = self._receipts.pop(delivery_id, None)
        if receipt is None:
            return
        if isinstance(outcome, Receipt):
            receipt.set_result(outcome)
        else:
            receipt.set_exception(outcome)
            receipt.exception()  # the waiting caller may have gone

    def _queue(self, started: Sequence[DeliveryProgress]) -> None:
        for progress in started:
            if progress.fence is not None:
                progress.clearance = partial(self.ownership.check, progress.fence)
            delivery = progress.delivery
            if delivery.address.channel not in self.channels:
                log.warning("delivery %s waits: the channel %s is off", delivery.id, delivery.address.channel)
                continue
            key = _chat_of(delivery)
            queue = self._queues.get(key)
            if queue is None:
                queue = self._queues[key] = deque()
                name = f"outbox {key[0]}:{key[1]}"
                work = run_with_restarts(name, partial(self._drain, key, queue), self._clock)
                self._spawn(work, name)
            progress.queue = queue
            queue.append(progress)

    async def _drain(self, key: Chat, queue: deque[DeliveryProgress]) -> None:
        # Begun by the turn of the first delivery, but not for that turn alone: its ids belong in no other's log lines.
        clear_contextvars()
        while queue:
            progress = queue[0]
            AUTHORITY.set(Authority(progress.fence, before_sending=progress.clearance))
            try:
                with bound_contextvars(**_ids(progress.delivery)):
                    await self._hand_over(key, progress)
            except OwnershipLost as lost:
                log.info("delivery %s is left: %s", progress.delivery.id, lost)
                self._receive(progress.delivery.id, lost)
            except StateError:
                # The disk's fault, not the delivery's.
                progress.record_interruption()
                raise
            except Exception:
                progress.record_interruption()
                self._unforeseen[progress.delivery.id] += 1
                self.counts[key[0], "retried"] += 1
                raise
            queue.popleft()
        del self._queues[key]

    async def _hand_over(self, key: Chat, progress: DeliveryProgress) -> None:
        """Try until the channel has it, refuses it for good, or a day has passed."""
        delivery, began, backoff = progress.delivery, self._clock.awake_or_not(), Backoff(first=1.0, longest=60.0)
        while True:
            if self._unforeseen[delivery.id] >= UNFORESEEN_TRIES:
                reason = f"{delivery.address.channel} failed; the log has the details"
                return await self._fail(delivery, reason, tell=True)
            try:
                directed = mask(await self._with_target(delivery))
                return await self._finish(progress, await self.channels[key[0]].deliver(directed, progress))
            except DeliveryError as error:
                if error.permanent or self._clock.awake_or_not() - began > GIVE_UP_SECONDS:
                    tell = error.permanent and not error.closed
                    return await self._fail(delivery, str(error), known=error.closed, tell=tell)
                log.warning("delivery to %s: %s; trying again", delivery.address.channel, error)
                self.counts[key[0], "retried"] += 1
                await progress.record_failure(maybe_arrived=error.maybe_delivered)
                pause = backoff.next()
                await self._clock.sleep(error.retry_after or pause)
                if progress.clearance is not None:
                    await progress.clearance()  # the next owner of the session sends it

    async def _with_target(self, delivery: Delivery) -> Delivery:
        """Return the delivery with the id of the message that it changes: what came before it in its chat has arrived.

        Raises:
            DeliveryError: there is no such message, or it is a question, which only the daemon may change.
        """
        if delivery.of:
            rows = await self._database.read(_ONE(of=delivery.of))
            receipt = _RECEIPT.from_json(rows[0]["receipt"]) if rows and rows[0]["state"] == "sent" else None
            if receipt is None or not receipt.message_id:
                raise DeliveryError("the message to be changed never arrived", permanent=True, closed=True)
            return replace(delivery, message_id=receipt.message_id)
        changes = delivery.message_id if delivery.action in ("edit", "delete") else None
        if changes and any(each.asks for each in await self.sent_as(delivery.address, changes)):
            raise DeliveryError("that message asks a person something and cannot be changed", permanent=True)
        return delivery

    async def _finish(self, progress: DeliveryProgress, receipt: Receipt) -> None:
        delivery = progress.delivery
        self._unforeseen.pop(delivery.id, None)
        arrived = progress.recorded if progress.parts else None
        await self._database.write(_SENT(of=delivery.id, receipt=_RECEIPT.to_json(receipt), arrived=arrived))
        self.counts[delivery.address.channel, "sent"] += 1
        log.info("delivered to %s", delivery.address.channel)
        self._receive(delivery.id, receipt)

    async def _fail(self, delivery: Delivery, reason: str, *, known: bool = False, tell: bool = False) -> None:
        """Give up a delivery; `known`: the channel has logged why; `tell`: the chat can be informed."""
        self._unforeseen.pop(delivery.id, None)
        # A caller that waits for the receipt reports the failure; a person who waits would learn nothing at all.
        word = word_about(delivery, reason) if tell and delivery.id not in self._receipts else ()
        log.log(
            logging.INFO if known else logging.ERROR,
            "delivery to %s was given up: %s",
            delivery.address.channel,
            reason,
        )
        await self._database.write(_FAILED(of=delivery.id, error=reason), *map(self.row, word))
        self.counts[delivery.address.channel, "failed"] += 1
        self.enqueue(word)
        self._receive(delivery.id, DeliveryError(reason, permanent=True))


def _chat_of(delivery: Delivery) -> Chat:
    return delivery.address.channel, delivery.address.chat


def _ids(delivery: Delivery) -> Mapping[str, str]:
    """Return the ids for log lines about a delivery."""
    of_turn = {"turn": delivery.turn, "session": delivery.session}
    return {"delivery": delivery.id, **{name: value for name, value in of_turn.items() if value}}


@asynccontextmanager
async def open_outbox(
    database: Database, channels: Mapping[str, Channel], clock: Clock, ownership: Ownership | None = None
) -> AsyncIterator[Outbox]:
    """Yield the outbox while the block runs. Call `resume` when the channels are open.

    `ownership`: None: this process is the only one of the store; others call `send_unfinished` for each session.
    """
    outbox = Outbox(database, channels, clock, ownership or SoleOwner())
    try:
        yield outbox
    finally:
        await outbox.close()

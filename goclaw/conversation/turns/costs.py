"""Costs of answers: booked with the step they belong to, and checked against the caps before each request.

Tokens are those of prompts and answers as providers count them, cached ones included. An answer of unknown price counts
zero dollars, and the message about a reached cap says so.

Where a cap holds, the largest cost of a request is reserved while it runs (`Costs.reserve`): a request begins once
the spending, and the reservations for those of the same person before it, leave some of the cap. So of all requests
that run side by side, in any process, one at most goes beyond it.
"""

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple, replace
from datetime import datetime

from goclaw.common.auth.access import Access
from goclaw.common.auth.daily_budget import UNLIMITED
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import Backoff, Clock
from goclaw.common.core.records import record
from goclaw.conversation.agent.limits import Cap, Planning, TurnRules
from goclaw.conversation.sessions.state import Contexts
from goclaw.durable.store.database import BoundStatement
from goclaw.durable.store.spending import Purpose, Reservation, Reservations, Spending, Spent
from goclaw.errors import LimitReached
from goclaw.llm.base import MAX_TOKENS, ChatModel, Finished, Request, Usage
from goclaw.llm.open import cost, largest
from goclaw.llm.token_counts import estimate_request

log = logging.getLogger(__name__)

KEEP_SECONDS = 2 * 24 * 3600.0
"""How long costs are kept per person: the daily caps need no more."""

SMALL = 0.01
"""US dollars below which cents say nothing."""

FIRST_LOOK, LONGEST_LOOK = 0.1, 1.0
"""Seconds between two looks whether the requests before this one leave some of the cap."""


@record
class Account:
    """A turn that pays for a request, with the rules that limit it."""

    session: str
    turn: str
    rules: TurnRules


@record
class Payer:
    """The names under which a request is reserved, and the turns that pay for it in addition to the person."""

    reservation: str
    person: str
    """Actor key."""
    session: str
    turn: str = ""
    accounts: Sequence[Account] = ()


@record
class Costs:
    """Books answers, and checks the caps of turns and persons."""

    spending: Spending
    config: Config
    clock: Clock
    contexts: Contexts
    access: Access
    """Knows the daily budget of each person."""
    reservations: Reservations

    def row(self, session: str, turn: str, purpose: Purpose, done: Finished, person: str) -> BoundStatement:
        """Return the row about an answer, to be written with its step."""
        counts = astuple(done.usage + done.wasted)
        # Limited to plausible values: a wrong count must not keep an answer from being stored.
        usage, now = Usage(*(min(max(0, count), MAX_TOKENS) for count in counts)), self.clock.now()
        return Spending.row(
            session,
            turn,
            purpose,
            done.spec,
            tokens=(usage.input, usage.output, usage.cache_read, usage.cache_write),
            cost=cost(done.spec, usage, self.config, now),
            at=now,
            person=person,
        )

    async def book(
        self, session: str, turn: str, purpose: Purpose, done: Finished, person: str, reservation: str
    ) -> None:
        """Book an answer that belongs to no step, and end its reservation."""
        row = self.row(session, turn, purpose, done, person)
        await self.spending.store(row, *self.reservations.end_statements(reservation))
        self.reservations.on_end(reservation)

    async def check(self, session: str, turn: str, person: str, rules: TurnRules) -> bool:
        """Check the caps before a request. False: there are none.

        Raises:
            LimitReached: the turn, or the person today, has used up the allowance.
        """
        is_capped = bool(rules.tokens or rules.cost)
        if is_capped:
            await self._room_in_turn(Account(session, turn, rules), ())
        return await self.check_day(person) or is_capped

    async def check_day(self, person: str) -> bool:
        """Check the person's daily caps. False: there are none. Raises LimitReached."""
        tokens, dollar = self._daily(person)
        if not (tokens or dollar):
            return False
        await self._room_today(person, tokens, dollar, ())
        return True

    @asynccontextmanager
    async def reserve(
        self, payer: Payer, model: ChatModel, tokens: int, max_output: int | None = None
    ) -> AsyncIterator[None]:
        """Reserve the largest cost of a request around it, once what others reserved before leaves some of each cap.

        It ends with the block where that fails, else with the transaction that books the request
        (`Reservations.end_statements`, then `on_end`).

        Args:
            payer: who pays; of one id there is one reservation.
            model: the model or chain that is asked.
            tokens: of the prompt, as estimated.
            max_output: tokens that the answer may have; None: the model's limit.

        Raises:
            LimitReached: the allowance was used up meanwhile.
            StateError: nothing can be reserved now.
        """
        most, dollar = largest(model, tokens, self.config, self.clock.now(), max_output)
        wanted = Reservation(payer.reservation, payer.person, payer.session, payer.turn, most, dollar)
        try:
            await self.reservations.make(wanted)
            looks = Backoff(FIRST_LOOK, LONGEST_LOOK)
            while not await self._has_room(wanted, payer.accounts):
                log.debug("a request waits for other requests of %s, which may use up the limit", wanted.person)
                await self.clock.sleep(looks.next())
                await self.reservations.end_the_dead()
            yield
        except BaseException:
            self.reservations.release(wanted.id)
            raise

    async def _has_room(self, wanted: Reservation, accounts: Sequence[Account]) -> bool:
        # Read before what was spent: what is settled in between counts twice, and not in neither.
        before = await self.reservations.before(wanted)
        for account in accounts:
            if (account.rules.tokens or account.rules.cost) and not await self._room_in_turn(account, before):
                return False
        tokens, dollar = self._daily(wanted.person)
        return not (tokens or dollar) or await self._room_today(wanted.person, tokens, dollar, before)

    async def _room_in_turn(self, account: Account, before: Sequence[Reservation]) -> bool:
        rules = account.rules
        spent = await self.spending.of_turn(account.session, account.turn)
        for cap, passed in _find_excess(spent, rules.tokens, rules.cost):
            raise LimitReached(f"I stopped: this turn used {passed}.", f"this turn took {passed}", key=cap.key)
        its = [each for each in before if each.is_of(account.session, account.turn)]
        return not any(_find_excess(_with(spent, its), rules.tokens, rules.cost))

    async def _room_today(
        self, person: str, tokens: Cap | None, dollar: Cap | None, before: Sequence[Reservation]
    ) -> bool:
        spent = await self.today(person)
        for cap, passed in _find_excess(spent, tokens, dollar):
            raise LimitReached(
                f"I stopped: your requests today used {passed}. I can continue after midnight.",
                f"your requests today used {passed}. I can continue after midnight",
                key=cap.key,
            )
        return not any(_find_excess(_with(spent, before), tokens, dollar))

    async def today(self, person: str) -> Spent:
        """Return the spending for a person since midnight, local time."""
        now = datetime.fromtimestamp(self.clock.now()).astimezone()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return await self.spending.of_person(person, midnight.timestamp())

    async def lines(self, person: str) -> list[tuple[str, str]]:
        """Return the used share of a person's daily caps, as name and text."""
        tokens, dollar = self._daily(person)
        if not (tokens or dollar):
            return []
        spent = await self.today(person)
        parts = []
        if tokens:
            parts.append(f"{spent.input + spent.output:,} of {tokens.most:,.0f} tokens")
        if dollar:
            parts.append(f"{dollars(spent.cost)} of {dollars(dollar.most)}{_price_note_of(spent)}")
        if reserved := await self.reservations.of_person(person):
            running = _with(Spent(), reserved)
            most = [f"{running.input:,} tokens"] if tokens else []
            most += [dollars(running.cost)] if dollar else []
            parts.append(f"up to {' and '.join(most)} more for running requests")
        return [("Today", ", ".join(parts))]

    async def today_in_words(self, person: str) -> str:
        """Describe what a person has spent today, and of how much where there is a limit: for that person."""
        for _, words in await self.lines(person):
            return words
        spent = await self.today(person)
        if spent.requests == 0:
            return "nothing spent"
        return "cost unknown" if spent.unpriced == spent.requests else f"{dollars(spent.cost)}{_price_note_of(spent)}"

    def _daily(self, person: str) -> tuple[Cap | None, Cap | None]:
        """Return a person's daily caps: tokens and dollars."""
        budget = self.access.daily_budget(person)
        if budget is UNLIMITED:
            return None, None
        tokens = None if budget.tokens is None else Cap(budget.tokens, budget.tokens_key)
        return tokens, None if budget.cost is None else Cap(budget.cost, budget.cost_key)

    async def prune(self) -> None:
        """Forget for whom older answers were given."""
        await self.spending.forget_people(self.clock.now() - KEEP_SECONDS)
        await self.reservations.prune()


@record
class BackgroundCosts:
    """Pays for answers that belong to no step of a turn: summaries, checkpoints, notes.

    Implements `compaction.summaries.SummaryCosts`.
    """

    costs: Costs

    async def check(self, session: str) -> bool:
        return await self.costs.check_day(await self._person(session))

    @asynccontextmanager
    async def reserve(self, reservation: str, session: str, model: ChatModel, request: Request) -> AsyncIterator[None]:
        payer = Payer(reservation, await self._person(session), session)
        async with self.costs.reserve(payer, model, estimate_request(request), request.max_output):
            yield

    async def book(self, session: str, purpose: Purpose, done: Finished, reservation: str) -> None:
        await self.costs.book(session, "", purpose, done, await self._person(session), reservation)

    def release(self, reservation: str) -> None:
        self.costs.reservations.release(reservation)

    async def _person(self, session: str) -> str:
        return (await self.costs.contexts.session(session)).person  # for whom it worked last


class ReservedPlanning(Planning):
    """The time of one answer, each request for which is reserved first; waiting for that is no part of the time."""

    def __init__(
        self, cap: Cap | None, costs: Costs, payer: Payer, model: ChatModel, max_output: int | None = None
    ) -> None:
        super().__init__(cap)
        self._costs = costs
        self._payer = payer
        self._model = model
        self._max_output = max_output

    @asynccontextmanager
    async def request(self, tokens: int = 0) -> AsyncIterator[None]:
        reserved = self._costs.reserve(self._payer, self._model, tokens, self._max_output)
        async with reserved, super().request(tokens):
            yield


def reservation_of(turn: str, step: str) -> str:
    """Return the id of the reservation for a step: the same when the step is run again, also by another process."""
    return f"{turn}:{step}"


def _with(spent: Spent, reserved: Sequence[Reservation]) -> Spent:
    tokens, dollar = sum(each.tokens for each in reserved), sum(each.cost for each in reserved)
    return replace(spent, input=spent.input + tokens, cost=spent.cost + dollar)


def _find_excess(spent: Spent, tokens: Cap | None, dollar: Cap | None) -> Iterator[tuple[Cap, str]]:
    """Yield the caps that were passed, each with its words for people."""
    used = spent.input + spent.output
    if tokens and used >= tokens.most:
        yield tokens, f"{used:,} tokens; the limit is {tokens.most:,.0f}{tokens.note}"
    if dollar and spent.cost >= dollar.most:
        allowed = f"{dollars(dollar.most)}{dollar.note}"
        yield dollar, f"{dollars(spent.cost)}; the limit is {allowed}{_price_note_of(spent)}"


def _price_note_of(spent: Spent) -> str:
    answers = "answer" if spent.unpriced == 1 else "answers"
    return f"; {spent.unpriced:,} {answers} of unknown price not included" if spent.unpriced else ""


def cost_in_words(spent: Spent) -> str:
    """Describe a session's costs in US dollars with their certainty: `$0.42 (12 requests, 3 of unknown price)`."""
    if spent.requests == 0:
        return "nothing (no requests yet)"
    requests = f"{spent.requests:,} request{'s' if spent.requests != 1 else ''}"
    if spent.unpriced == spent.requests:
        return f"unknown ({requests}, of unknown price)"
    unknown = f", {spent.unpriced:,} of unknown price" if spent.unpriced else ""
    return f"{dollars(spent.cost)} ({requests}{unknown})"


def dollars(cost: float) -> str:
    """Return an amount, as people read it."""
    return f"${cost:,.4f}" if 0 < cost < SMALL else f"${cost:,.2f}"

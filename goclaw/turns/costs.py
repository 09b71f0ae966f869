"""Costs of answers: booked with the step they belong to, and checked against the caps before each request.

Tokens are those of prompts and answers as providers count them, cached ones included. An answer of unknown price counts
zero dollars, and the message about a reached cap says so.
"""

from collections.abc import Iterator
from dataclasses import astuple
from datetime import datetime

from goclaw.agent.limits import Cap, TurnRules
from goclaw.auth.access import Access
from goclaw.auth.daily_budget import UNLIMITED
from goclaw.config.schema import Config
from goclaw.core.clock import Clock
from goclaw.core.records import record
from goclaw.errors import LimitReached
from goclaw.llm.base import MAX_TOKENS, Finished, Usage
from goclaw.llm.open import cost
from goclaw.sessions.state import Contexts
from goclaw.store.database import BoundStatement
from goclaw.store.spending import Purpose, Spending, Spent

KEEP_SECONDS = 2 * 24 * 3600.0
"""How long costs are kept per person: the daily caps need no more."""

SMALL = 0.01
"""US dollars below which cents say nothing."""


@record
class Costs:
    """Books answers, and checks the caps of turns and persons."""

    spending: Spending
    config: Config
    clock: Clock
    contexts: Contexts
    access: Access
    """Knows the daily budget of each person."""

    def row(self, session: str, turn: str, purpose: Purpose, done: Finished, person: str) -> BoundStatement:
        """Return the row about an answer, to be written with its step."""
        usage, now = _believable(done.usage), self.clock.now()
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

    async def book(self, session: str, purpose: Purpose, done: Finished) -> None:
        """Book an answer that belongs to no step of a turn: a summary, a checkpoint, notes."""
        person = (await self.contexts.session(session)).person  # for whom it worked last
        await self.spending.keep(self.row(session, "", purpose, done, person))

    async def check(self, session: str, turn: str, person: str, rules: TurnRules) -> None:
        """Check the caps before a request.

        Raises:
            LimitReached: the turn, or the person today, has used up what is allowed.
        """
        if rules.tokens or rules.cost:
            spent = await self.spending.of_turn(session, turn)
            for passed in _passed(spent, rules.tokens, rules.cost):
                raise LimitReached(f"I stopped: this turn took {passed}.")
        await self.check_day(person)

    async def check_day(self, person: str) -> None:
        """Check the person's daily caps. Raises LimitReached."""
        tokens, dollar = self._daily(person)
        if tokens or dollar:
            for passed in _passed(await self.today(person), tokens, dollar):
                raise LimitReached(f"I stopped: your requests of today took {passed}. I can go on after midnight.")

    async def today(self, person: str) -> Spent:
        """Return what was spent for a person since midnight, local time."""
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
            parts.append(f"{dollars(spent.cost)} of {dollars(dollar.most)}{_unpriced(spent)}")
        return [("Today", ", ".join(parts))]

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


def _passed(spent: Spent, tokens: Cap | None, dollar: Cap | None) -> Iterator[str]:
    """Yield the caps that were passed, in words with the configuration key."""
    used = spent.input + spent.output
    if tokens and used >= tokens.most:
        yield f"{used:,} tokens, and {tokens.most:,.0f} are allowed ({tokens.key})"
    if dollar and spent.cost >= dollar.most:
        allowed = dollars(dollar.most)
        yield f"{dollars(spent.cost)}, and {allowed} is allowed ({dollar.key}){_unpriced(spent)}"


def _unpriced(spent: Spent) -> str:
    if not spent.unpriced:
        return ""
    answers = "answer" if spent.unpriced == 1 else "answers"
    return f"; {spent.unpriced:,} {answers} of unknown price not counted"


def _believable(usage: Usage) -> Usage:
    """Limit the provider's counts to plausible values: a wrong count must not keep an answer from being stored."""
    return Usage(*(min(max(0, count), MAX_TOKENS) for count in astuple(usage)))


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

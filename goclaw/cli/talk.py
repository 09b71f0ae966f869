"""`goclaw tui` and `goclaw send`: talking to the daemon, or to one of our own for as long as it takes."""

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson

from goclaw.cli.frame import say
from goclaw.cli.process import listens
from goclaw.config.schema import Config
from goclaw.errors import StateError
from goclaw.events import (
    GONE,
    Acceptance,
    AcceptKind,
    MessageStored,
    Outcome,
    Question,
    QuestionAsked,
    TurnEvent,
    TurnFinished,
)
from goclaw.tui.client import Client, attach
from goclaw.tui.questions import text_of, title_of
from goclaw.tui.text import one_line
from goclaw.wire import happened


async def send(config: Config, text: str, session: str, *, as_json: bool = False) -> tuple[str, bool]:
    """Send one message or command and wait for its end.

    With `as_json`, every event of the turn is printed as a line of JSON as it comes. Without, what a turn waits for is
    said on standard error, with the command that answers it.

    Returns:
        What to print, and whether it went well.
    """
    async with _daemon(config), attach(config.socket_path, session, limit=1) as client:
        acceptance = await client.send(text)
        if acceptance.kind is not AcceptKind.TURN:
            went_well = acceptance.kind in (AcceptKind.REPLY, AcceptKind.ANSWER) and acceptance.text != GONE
            return acceptance.text or str(acceptance.kind), went_well
        return await _follow(client, acceptance, _Reporter(session, as_json=as_json))


class _Reporter:
    """Tells whoever started `goclaw send` what goes on meanwhile."""

    def __init__(self, session: str, *, as_json: bool) -> None:
        self._session = session
        self.as_json = as_json

    def event(self, event: TurnEvent) -> None:
        """Something of the turn that answers."""
        if self.as_json:
            frame = happened(event)
            print(orjson.dumps({"name": frame.name, **frame.event}).decode(), flush=True)
        elif isinstance(event, QuestionAsked):
            self._say(event.question)

    def held_up(self, event: QuestionAsked) -> None:
        """An earlier turn of the session waits for a person, and ours waits for that one."""
        if not self.as_json:
            say("an earlier message of this session is not finished")
        self.event(event)

    def _say(self, question: Question) -> None:
        """What is asked, all of it, and how to answer from another terminal."""
        say(f"waiting for a person: {title_of(question)}")
        for line in text_of(question).splitlines():
            say(f"  {line}")
        send = f"goclaw send --session {shlex.quote(self._session)}"
        if question.kind == "approval":
            say(f"answer with: {send} '/approve {question.id}' (or '/deny {question.id}')")
            return
        for number, option in enumerate(question.options, 1):
            say(f"  {number}. {one_line(option, 200)}")
        say(f"answer with: {send} ANSWER (or '/deny {question.id}')")


async def _follow(client: Client, acceptance: Acceptance, report: _Reporter) -> tuple[str, bool]:
    now, turn = client.attached.now, acceptance.turn
    for question in now.questions:
        report.held_up(QuestionAsked(now.turn, client.attached.session, question))
    async for event in client.frames():
        if isinstance(event, MessageStored) and event.joined == acceptance.turn:
            turn = event.turn  # that turn's answer is the answer to this message, too
        if isinstance(event, QuestionAsked) and event.turn != turn:
            report.held_up(event)
        if isinstance(event, Acceptance) or event.turn != turn:
            continue
        report.event(event)
        if isinstance(event, TurnFinished):
            return "" if report.as_json else event.text, event.outcome in (Outcome.ANSWERED, Outcome.LIMITED)
    raise StateError(
        "the daemon ended before the answer was there. The message is not lost: it is answered at the next start, "
        f"in session {client.attached.session}."
    )


@asynccontextmanager
async def _daemon(config: Config) -> AsyncIterator[None]:
    """The daemon that runs, or else one in this process, under the same lock."""
    if listens(config):
        yield
    else:
        from goclaw.app import open_app

        async with open_app(config, with_channels=False):
            yield

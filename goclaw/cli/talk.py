"""`goclaw tui` and `goclaw send`: talking to the daemon, or to one of our own for as long as it takes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson

from goclaw.cli.process import listens
from goclaw.config.schema import Config
from goclaw.errors import StateError
from goclaw.events import Acceptance, AcceptKind, MessageStored, Outcome, TurnFinished
from goclaw.tui.client import Client, attach
from goclaw.wire import happened


async def send(config: Config, text: str, session: str, *, as_json: bool = False) -> tuple[str, bool]:
    """Send one message or command and wait for its end.

    With `as_json`, every event of the turn is printed as a line of JSON as it comes.

    Returns:
        What to print, and whether it went well.
    """
    async with _daemon(config), attach(config.socket_path, session, limit=1) as client:
        acceptance = await client.send(text)
        if acceptance.kind is not AcceptKind.TURN:
            return acceptance.text or str(acceptance.kind), acceptance.kind is AcceptKind.REPLY
        return await _follow(client, acceptance, as_json=as_json)


async def _follow(client: Client, acceptance: Acceptance, *, as_json: bool) -> tuple[str, bool]:
    turn = acceptance.turn
    async for event in client.frames():
        if isinstance(event, MessageStored) and event.joined == acceptance.turn:
            turn = event.turn  # that turn's answer is the answer to this message, too
        if isinstance(event, Acceptance) or event.turn != turn:
            continue
        if as_json:
            frame = happened(event)
            print(orjson.dumps({"name": frame.name, **frame.event}).decode(), flush=True)
        if isinstance(event, TurnFinished):
            return "" if as_json else event.text, event.outcome in (Outcome.ANSWERED, Outcome.LIMITED)
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

"""The first poll, sent while the daemon's other modules are still being imported.

It has no offset, so it acknowledges nothing: what its answer holds is taken in when everything that a message needs is
there, and comes again should the daemon end before. The channel takes over its answer, its client and the bot's lock.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp

from goclaw.channels.telegram.exchange import ANSWER_MARGIN, Form, exchange, plain_form, poll_parameters
from goclaw.channels.telegram.poll_lock import BotInUse, only_poller
from goclaw.common.config.schema import Config
from goclaw.common.config.values import PostgresPlace
from goclaw.common.net import open_client

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class FirstPoll:
    """A poll under way. Its lock and its client belong to the channel once that has taken them."""

    url: str
    form: Form
    answer: asyncio.Task[tuple[int, bytes]]
    session: aiohttp.ClientSession
    client: AsyncExitStack
    """Closes the session."""
    lock: ExitStack
    """Releases the bot."""

    def is_for(self, url: str, form: Form) -> bool:
        """Whether it is the very request that the poll loop begins with."""
        return (self.url, self.form) == (url, form)


@asynccontextmanager
async def start(config: Config) -> AsyncIterator[FirstPoll | None]:
    """Send the first poll, and end with the block whatever the channel has not taken over.

    Yields None where there is nothing to poll: with a webhook, while another process polls for the bot, or on Postgres,
    where polling is a duty of one of several processes, which this one does not have yet.
    """
    settings, place = config.telegram, config.store_place
    token = settings.token.get_secret_value().strip() if settings.token else ""
    if not token or settings.mode == "webhook" or isinstance(place, PostgresPlace):
        yield None
        return
    async with AsyncExitStack() as stack:
        lock = stack.enter_context(ExitStack())
        try:
            lock.enter_context(only_poller(token, settings.base_url, config.state_dir))
        except BotInUse as error:
            log.debug("telegram: no early poll: %s", error)
            yield None
            return
        client = await stack.enter_async_context(AsyncExitStack())
        session = await client.enter_async_context(open_client())
        url = f"{settings.base_url.rstrip('/')}/bot{token}/getUpdates"
        form = plain_form(poll_parameters(0))
        asking = exchange(session, "POST", url, form, seconds=ANSWER_MARGIN, proxy=settings.proxy)
        answer = asyncio.create_task(asking, name="telegram: first poll")
        try:
            yield FirstPoll(url, form, answer, session, client, lock)
        finally:
            # A failure that the poll loop has not read helps nobody any more.
            answer.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            answer.cancel()
            await asyncio.wait({answer})

"""`goclaw registry serve`: this gateway's own registry, in the foreground, with or without a daemon beside it.

What other registries have and `federation.share` passes on is kept fresh by this process itself.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

import typer

from goclaw.cli.common import load
from goclaw.clock import Clock, RealClock
from goclaw.config.listening import in_url
from goclaw.config.schema import Config

log = logging.getLogger(__name__)

LOG = "registry.log"
"""In `logs`, beside the daemon's: two processes must not write the same."""


def serve(context: typer.Context) -> None:
    """Serve this gateway's own registry until Ctrl-C or SIGTERM."""
    asyncio.run(_serve(load(context).config))


async def _serve(config: Config) -> None:
    # What is wrong with the command line or the configuration is said before these are paid for.
    from goclaw.audit import open_audit
    from goclaw.logs import open_logs
    from goclaw.servers.registry.open import open_registry, warnings_of
    from goclaw.tokens import open_tokens
    from goclaw.users import open_users

    clock = RealClock()
    with open_logs(config, sys.stderr, config.state_dir / "logs" / LOG):
        async with (
            _stop_signals() as stopping,
            open_users(config.users_path, clock) as users,
            open_tokens(config.tokens_path, clock) as tokens,
            open_audit(config, clock) as audit,
            _kept_fresh(config, clock),
            open_registry(config, users, tokens, clock, audit.record) as port,
        ):
            print(f"The registry is at {_address(config, port)}. Ctrl+C ends it.", flush=True)
            for warning in (*warnings_of(config), *_hints(config, has_token=tokens.any())):
                print(warning, flush=True)
            await stopping.wait()
            print("The registry ends.", flush=True)


@asynccontextmanager
async def _kept_fresh(config: Config, clock: Clock) -> AsyncIterator[None]:
    """Fetch what is shared on, again and again, while the block runs."""
    shared = {name: settings for name, settings in config.registries.items() if settings.federation.share}
    if not shared:
        yield
        return
    from goclaw.net import open_client
    from goclaw.registries.syncing import SYNCING
    from goclaw.supervise import background, keep_running

    def tell(registry: str, problem: str, *, changed: bool) -> None:
        if problem:
            log.warning("the registry %s: %s", registry, problem)

    async with open_client() as http:
        work = partial(SYNCING.run, shared, config.state_dir, http=http, clock=clock, tell=tell)
        name = "registries that are shared on"
        async with background(keep_running(name, work, clock), name):
            yield


def _hints(config: Config, *, has_token: bool) -> Iterator[str]:
    if not has_token:
        what = "publish" if config.registry_server.open else "come in"
        yield f"Nobody can {what} yet: `goclaw token add NAME --user KEY` makes a token for somebody in users.json."


def _address(config: Config, port: int) -> str:
    return f"http://{in_url(config.registry_server.host)}:{port}"


@asynccontextmanager
async def _stop_signals() -> AsyncIterator[asyncio.Event]:
    """Yield an event that SIGTERM or Ctrl-C sets."""
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        yield stopping
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

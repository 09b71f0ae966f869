"""Opens the registry: a listener of its own, on a port of its own."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from goclaw.audit import AuditEntry
from goclaw.clock import Clock
from goclaw.config.listening import is_loopback
from goclaw.config.schema import Config
from goclaw.registries.catalog_store import FILE, CatalogStore
from goclaw.registries.syncing import ID
from goclaw.servers.listener import Endpoint, ListenerLimits, guarded, open_listener
from goclaw.servers.registry.catalogue import Catalogue
from goclaw.servers.registry.pages import About, Pages
from goclaw.servers.registry.refusal import refused
from goclaw.servers.registry.visitors import Visitors
from goclaw.tokens import Tokens
from goclaw.users import Users


@asynccontextmanager
async def open_registry(
    config: Config,
    users: Users,
    tokens: Tokens,
    clock: Clock,
    audit: Callable[[AuditEntry], None],
    caps: ListenerLimits | None = None,
) -> AsyncIterator[int]:
    """Serve the registry of this state folder while the block runs; yields the port.

    Raises:
        StateError: the port is taken, or `registry.db` cannot be used.
    """
    settings, caps = config.registry_server, caps or ListenerLimits()
    store = CatalogStore(config.state_dir / FILE)
    names = [name.lower() for name in settings.hosts]
    about = About(await asyncio.to_thread(store.fact, ID, secrets.token_hex(16)), next(iter(names), "goclaw"))
    place = Endpoint(
        "the registry",
        "registry_server.port",
        settings.host,
        settings.port,
        names=frozenset(names),
    )
    application = guarded(place, caps, refused)
    shared = [name for name, each in config.registries.items() if each.federation.share]
    visitors = Visitors(settings, users, tokens, clock, audit)
    Pages(about, store, Catalogue(store, shared), visitors, clock, audit).add_to(application)
    async with open_listener(place, application, caps) as port:
        yield port


def warnings_of(config: Config) -> list[str]:
    """Return warnings about the settings, for the operator."""
    settings = config.registry_server
    if is_loopback(settings.host):
        return []
    found = ["others reach the registry without encryption: put a reverse proxy with TLS before it"]
    if settings.open:
        found.append("whoever reaches the registry may read all of it (`registry_server.open`)")
    return found

"""The channels that the configuration enables: begun before the daemon's other modules are imported, then opened."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from goclaw.channels.base import Channel, ChannelPart, ChannelPorts
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load, load_third_party, third_party

log = logging.getLogger(__name__)


@asynccontextmanager
async def start_channels(config: Config) -> AsyncIterator[Mapping[str, object]]:
    """Start the channels that can start early (`ChannelPart.begin`); yield the results, by name, for `open_channels`.

    Foreign channels only open: to import them may take any time.

    Raises:
        ConfigError: a channel of the catalogue cannot be loaded.
    """
    begun: dict[str, object] = {}
    async with AsyncExitStack() as stack:
        for name, path in catalog.CHANNELS.items():
            if name in third_party("channels"):
                continue
            part = load(path, ChannelPart)
            if part.begin and part.enabled(config):
                begun[name] = await stack.enter_async_context(part.begin(config))
        yield begun


def _log(what: str, fault: str) -> None:
    log.error("%s: %s", what, fault)


@asynccontextmanager
async def open_channels(
    config: Config,
    ports: Callable[[object], ChannelPorts],
    begun: Mapping[str, object],
    report: Callable[[str, str], None] = _log,
) -> AsyncIterator[dict[str, Channel]]:
    """Open the channels, with the ports that `ports` makes of what each has begun.

    `report` gets the title and the fault of those of packages that cannot be loaded.

    Raises:
        ConfigError: a channel cannot be opened.
    """
    channels: dict[str, Channel] = {}
    async with AsyncExitStack() as stack:
        for name, part in _find_channels(config, report):
            channels[name] = await stack.enter_async_context(part.open(config, ports(begun.get(name))))
        yield channels


def _find_channels(config: Config, report: Callable[[str, str], None]) -> Iterator[tuple[str, ChannelPart]]:
    foreign = third_party("channels")
    ours = {name: path for name, path in catalog.CHANNELS.items() if name not in foreign}
    of_sections = {name: path for name, path in catalog.CHANNELS_OF_SECTIONS.items() if getattr(config, name)}
    parts = {
        **{name: load(path, ChannelPart) for name, path in ours.items()},
        **load_third_party("channels", ChannelPart, report),
        **{name: load(path, ChannelPart) for name, path in of_sections.items()},
    }
    for name, part in parts.items():
        if part.enabled(config):
            yield name, part

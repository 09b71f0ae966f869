"""The channels that the configuration enables: begun before the daemon's other modules are imported, then opened."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from goclaw.channels.base import Channel, ChannelPart, ChannelPorts
from goclaw.config.schema import Config
from goclaw.core import catalog
from goclaw.core.plugins import load, third_party


@asynccontextmanager
async def begin_channels(config: Config) -> AsyncIterator[Mapping[str, object]]:
    """Begin the channels that can (`ChannelPart.begin`); yield what they began, by name, for `open_channels`.

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


@asynccontextmanager
async def open_channels(
    config: Config, ports: Callable[[object], ChannelPorts], begun: Mapping[str, object]
) -> AsyncIterator[dict[str, Channel]]:
    """Open the channels, with the ports that `ports` makes of what each has begun.

    Raises:
        ConfigError: a channel cannot be loaded or opened.
    """
    channels: dict[str, Channel] = {}
    async with AsyncExitStack() as stack:
        for name, part in _enabled(config):
            channels[name] = await stack.enter_async_context(part.open(config, ports(begun.get(name))))
        yield channels


def _enabled(config: Config) -> Iterator[tuple[str, ChannelPart]]:
    of_sections = {name: path for name, path in catalog.CHANNELS_OF_SECTIONS.items() if getattr(config, name)}
    for name, path in {**catalog.CHANNELS, **third_party("channels"), **of_sections}.items():
        part = load(path, ChannelPart)
        if part.enabled(config):
            yield name, part

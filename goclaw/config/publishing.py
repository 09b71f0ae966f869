"""Addresses under which others use our tools, and settings that prevent publication."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from goclaw.config.exports import Publication
from goclaw.config.keys import closest, what_helps
from goclaw.config.listening import EVERYWHERE, in_url, is_loopback
from goclaw.config.schema import Config
from goclaw.selection import Toolsets


def public_address(config: Config, port: int = 0) -> str:
    """Return the URL of our MCP server for others; `port`: its actual port, if any will do.

    Empty: none can be given, as it listens on all addresses and no public name is configured.
    """
    server = config.mcp.server
    if server.public_url:
        return server.public_url
    if server.host in EVERYWHERE:
        return ""
    return f"http://{in_url(server.host)}:{port or server.port}/mcp"


def may_be_told(config: Config, registry: str) -> bool:
    """Whether anything can be published to the registry of that name; to the public one its own program publishes."""
    settings = config.registries.get(registry)
    return settings is not None and not settings.is_public


def hindrances(config: Config) -> Iterator[tuple[str, str]]:
    """Yield what prevents sets from being published as configured: the place, and the reason with the remedy."""
    if not config.publications:
        return
    for each in config.publications:
        yield from ((f"{each.place}.publish_to", why) for why in _of_one(config, each))
    if not config.mcp.server.enabled:
        yield (
            "mcp.server.enabled",
            "is not set, so nobody could use what `publish_to` offers, and nothing is published; set it to true",
        )
    elif not public_address(config):
        yield (
            "mcp.server.public_url",
            f"is needed for `publish_to`: others cannot call {config.mcp.server.host}; set it to where they reach the "
            "MCP server",
        )
    elif is_loopback(urlsplit(public_address(config)).hostname or "") and not all(_is_here(config)):
        yield (
            "mcp.server.public_url",
            "is not set, or means this machine alone: what is published can be used from nowhere else; set it to where "
            "others reach the MCP server",
        )


def _of_one(config: Config, each: Publication) -> Iterator[str]:
    for name in each.settings.publish_to:
        if name not in config.registries:
            yield f"unknown registry `{name}`{what_helps(name, config.registries)}"
        elif not may_be_told(config, name):
            yield (
                f"the registry `{name}` has the format of the public MCP registry, to which its own program publishes; "
                "name another one"
            )
    if not each.agent and each.toolset not in (known_sets := Toolsets(config.toolsets).names):
        meant = closest(each.toolset, known_sets)
        yield f"unknown set `{each.toolset}`" + (
            f"; did you mean `{meant}`?" if meant else "; define it in `tools.sets`"
        )


def _is_here(config: Config) -> Iterator[bool]:
    """Yield whether each registry to publish to is on this machine."""
    named = {name for each in config.publications for name in each.settings.publish_to}
    return (
        is_loopback(urlsplit(config.registries[name].url).hostname or "") for name in named & set(config.registries)
    )

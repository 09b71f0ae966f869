"""From a line of `tools.from_registry` to the settings of an MCP server, by the stored catalogue.

No request is made here: the store decides, so that a start without a network works like the last one. All of an entry
is untrusted. It chooses an address or a package and pins the definitions of the tools; their names, visibility, tags
and headers are set by the operator alone.
"""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from goclaw.common.config.mcp import McpClientSettings, PinnedTool
from goclaw.common.config.registries import FromRegistrySettings, RegistrySettings
from goclaw.common.core.clock import ago
from goclaw.common.core.records import record
from goclaw.extensions.registries.base import SERVING, Entry, EntryKind, Package, RegistryError, RemoteServer
from goclaw.extensions.registries.catalog_store import CatalogStore, StoredEntry, Sync

STREAMABLE = "streamable-http"
_NPM = re.compile(r"(?:@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*", re.IGNORECASE)
_PYPI = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_TOOL = re.compile(r"[A-Za-z0-9_./-]{1,128}")
"""A tool's name that is allowed in patterns. Others are refused when the server's list is validated."""
_PYPI_EXACT = re.compile(r"[0-9][0-9A-Za-z.+!_-]{0,99}")
"""An exact version, no specifier for several: for those `uvx` would pick the newest."""
_NPM_EXACT = re.compile(
    r"(?:(?:0|[1-9][0-9]{0,14})\.){2}(?:0|[1-9][0-9]{0,14})"
    r"(?:-(?=[0-9A-Za-z.-]{1,99}(?:\+|$))[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z.-]{1,50})?"
)
"""The same for `npx`, to which `1`, `1.2` and `1.x` are ranges. What is no version to it (three numbers, each below
2^53, at most 256 characters) is a tag, that its publisher moves from version to version."""


@record
class Resolved:
    """The result."""

    settings: McpClientSettings
    about: str
    """The entry, for people: `data-tools 1.2.0 of the registry corp`."""
    is_trusted: bool = False
    """Whether its address may be private: the operator allows it, or it is the private one of the registry itself."""


def resolve(
    settings: FromRegistrySettings, registry: RegistrySettings | None, store: CatalogStore, now: float, place: str
) -> Resolved:
    """Return the server that the line at `place` means now. Reads the store and blocks.

    Raises:
        RegistryError: none may be used; the message says why and what helps.
        StateError: the store cannot be used.
    """
    if registry is None:
        raise RegistryError(f"the registry {settings.registry} is not configured (registries.{settings.registry})")
    kept = _choose(settings, registry, store, now, place)
    entry = kept.entry
    about = f"{entry.name} {entry.version} of the registry {settings.registry}"
    if settings.sha256 and kept.sha256 != settings.sha256:
        raise RegistryError(f"{about} does not match {place}.sha256: its hash is {kept.sha256}")
    pins = _pins(entry, about)
    # Further tools of a toolset's server were not requested, and are no fault.
    allow = tuple(name for name in pins if _TOOL.fullmatch(name))
    ours = {"timeout": settings.timeout, "roles": settings.roles, "tags": settings.tags, "tools": pins, "allow": allow}
    if remote := next((each for each in entry.remotes if _is_usable(each)), None):
        return _at_address(remote, settings, registry, ours, about, place)
    return _as_program(entry, settings, ours, about, place)


def _choose(
    settings: FromRegistrySettings, registry: RegistrySettings, store: CatalogStore, now: float, place: str
) -> StoredEntry:
    name, sync = settings.registry, store.sync(settings.registry)
    versions = [each for kind in SERVING for each in store.versions(name, kind, settings.toolset)]
    if not versions:
        raise RegistryError(_nothing(settings, store, sync))
    if settings.version:
        chosen = next((each for each in versions if each.entry.version == settings.version), None)
        if chosen is None:
            raise RegistryError(
                f"the registry {name} has no version {settings.version} of {settings.toolset}; available: "
                f"{', '.join(each.entry.version for each in versions[:5])}"
            )
        return chosen
    if now - sync.synced_at > registry.known_for:
        raise RegistryError(
            f"nobody knows the newest version of {settings.toolset}: the catalogue of the registry {name} was fetched "
            f"{ago(now - sync.synced_at)}{_because(sync)}; a version in {place}.version is used at any time"
        )
    return versions[0]


def _nothing(settings: FromRegistrySettings, store: CatalogStore, sync: Sync) -> str:
    """Return why there is nothing of that name."""
    name = settings.registry
    if not sync.synced_at:
        return f"the catalogue of the registry {name} has not been fetched yet{_because(sync)}"
    if agents := store.versions(name, EntryKind.AGENT, settings.toolset):
        toolsets = ", ".join(agents[0].entry.toolsets) or "none"
        return f"{settings.toolset} of the registry {name} is an agent; name one of its toolsets: {toolsets}"
    return (
        f"the registry {name} has no toolset and no MCP server that is called {settings.toolset}; `goclaw registry "
        f"search` says what it has, and registries.{name}.federation may leave it out"
    )


def _because(sync: Sync) -> str:
    return f" ({sync.problem})" if sync.problem else ""


def _pins(entry: Entry, about: str) -> Mapping[str, PinnedTool]:
    """Return the required definitions of the server's tools. For an MCP server the registry does not know them."""
    if entry.kind is EntryKind.TOOLSET and not entry.tools:
        raise RegistryError(f"{about} has no tools")
    return {
        tool.name: PinnedTool(
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            read_only=tool.read_only,
            destructive=tool.destructive,
        )
        for tool in entry.tools
    }


def _is_usable(remote: RemoteServer) -> bool:
    """Return whether our client can call the address."""
    try:
        parts = urlsplit(remote.url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return remote.type == STREAMABLE and is_address and "@" not in parts.netloc and remote.url.isprintable()


def _is_at_home(host: str | None, registry: RegistrySettings) -> bool:
    """Return whether the host is the registry's own machine in a private network.

    A name does not count: the operator of the registry decides where it leads, and may change that.
    """
    home = urlsplit(registry.url).hostname
    if host is None or host != home:
        return False
    try:
        return not ip_address(host).is_global
    except ValueError:
        return host == "localhost"


def _at_address(
    remote: RemoteServer,
    settings: FromRegistrySettings,
    registry: RegistrySettings,
    ours: Mapping[str, object],
    about: str,
    place: str,
) -> Resolved:
    missing = _missing(remote.headers, {name.lower() for name in settings.headers})
    if missing:
        raise RegistryError(f"{about} needs the headers {', '.join(missing)}; set them in {place}.headers")
    parts = urlsplit(remote.url)
    is_trusted = settings.private or _is_at_home(parts.hostname, registry)
    if settings.headers and parts.scheme != "https" and not is_trusted:
        raise RegistryError(
            f"{about} is at an unencrypted address ({parts.hostname}), to which GoClaw sends no {place}.headers; in "
            f"your own network set {place}.private"
        )
    return Resolved(_build_settings({"url": remote.url, "headers": settings.headers, **ours}, about), about, is_trusted)


def _build_settings(values: Mapping[str, object], about: str) -> McpClientSettings:
    try:
        return McpClientSettings.model_validate(values)
    except ValueError:
        raise RegistryError(f"{about} says of its server what no configuration could") from None


def _missing(wanted: tuple[str, ...], given: set[str]) -> list[str]:
    return [name[:100] for name in wanted if name.lower() not in given]


def _as_program(
    entry: Entry, settings: FromRegistrySettings, ours: Mapping[str, object], about: str, place: str
) -> Resolved:
    usable = list(commands(entry.packages))
    if not usable:
        raise RegistryError(
            f"{about} has no usable address (streamable HTTP) and no npm or PyPI package of its version"
        )
    if not settings.packages:
        raise RegistryError(
            f"{about} has no usable address, only packages: set {place}.packages to fetch and start one here, where a "
            "stranger's program then runs as you"
        )
    package, command = usable[0]
    if missing := _missing(package.variables, {name.lower() for name in settings.env}):
        raise RegistryError(f"{about} needs the variables {', '.join(missing)}; set them in {place}.env")
    return Resolved(
        _build_settings({"command": command[0], "args": command[1:], "env": settings.env, **ours}, about), about
    )


def commands(packages: tuple[Package, ...]) -> Iterator[tuple[Package, tuple[str, ...]]]:
    """Yield packages with an exact version, and the commands that start them."""
    for package in packages:
        name, version = package.identifier, package.version
        if package.kind == "npm" and _NPM.fullmatch(name) and _NPM_EXACT.fullmatch(version):
            yield package, ("npx", "-y", f"{name}@{version}", *package.arguments)
        elif package.kind == "pypi" and _PYPI.fullmatch(name) and _PYPI_EXACT.fullmatch(version):
            yield package, ("uvx", f"{name}=={version}", *package.arguments)

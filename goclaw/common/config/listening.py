"""Where others reach us: the HTTP listener, the webhook, and the address of published tools.

The rules say whether the listener opens, for whom, which settings must not be combined, and what prevents publication.
A new route that strangers must not use adds its credential to `credentials`.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from goclaw.common.config.exports import Publication
from goclaw.common.config.keys import Loc, closest, what_helps
from goclaw.common.config.schema import Config, TelegramSettings
from goclaw.common.config.webhooks import HOOKS
from goclaw.common.core.selection import Toolsets

PROBES = ("/healthz", "/readyz")
"""Paths of the listener's own. Their answers need no credential."""
CLIENTS = "/ws"
"""Path for terminals, with `http.clients`."""
OPENAI = "/v1/"
"""Begins the paths for programs that speak OpenAI's protocol, with `http.openai`."""
API = "/api/v1/"
"""Begins the paths for programs and pages, with `http.api`."""
METRICS = "/metrics"
"""Path for Prometheus, with `http.metrics`."""
WEB = "/web/"
"""Prefix of the paths of the web page, with `http.web`, besides `/`."""
FOR_TOKENS = ("api", "clients", "metrics", "openai", "web")
"""The switches of `http` that ask callers for an access token."""
EVERYWHERE: Mapping[str, str] = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - looked up, not bound
"""Addresses to listen on that are none to call, and where this machine itself finds what listens there."""
TELEGRAM_PORTS = (443, 80, 88, 8443)
"""Ports that Telegram calls (Bot API, setWebhook)."""


def is_loopback(host: str) -> bool:
    """Whether the name or address means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def in_url(host: str) -> str:
    """Return a host as it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def uses_webhook(config: Config) -> bool:
    """Whether Telegram is on and calls us."""
    telegram = config.telegram
    return telegram.mode == "webhook" and telegram.token is not None and telegram.enabled is not False


def listens(config: Config) -> bool:
    """Whether the listener opens."""
    wanted = uses_webhook(config) or wants_tokens(config) or bool(config.webhooks)
    return config.http.enabled or (config.http.enabled is None and wanted)


def wants_tokens(config: Config) -> bool:
    """Whether the listener has anything for holders of access tokens."""
    return any(getattr(config.http, key) for key in FOR_TOKENS)


def serves(config: Config, switch: str) -> bool:
    """Whether the listener has the paths of a switch of `http`. The web page needs those of the API."""
    return bool(getattr(config.http, switch)) or (switch == "api" and config.http.web)


def route_parts(config: Config) -> Iterator[str]:
    """Yield the names of the parts (`ROUTES` of the catalogue) that the configuration wants on the listener."""
    yield from (key for key in FOR_TOKENS if key != "clients" and serves(config, key))
    if config.webhooks:
        yield "webhooks"


def credentials(config: Config) -> Iterator[str]:
    """Yield the credentials that callers need, each in words.

    The webhook always has its secret, made by the daemon if need be. Clients always need a token; while none exists,
    no client is admitted. Every other webhook has a secret of its own.
    """
    if uses_webhook(config):
        yield "the secret of telegram.webhook"
    if wants_tokens(config):
        yield "an access token"
    if config.webhooks:
        yield "the secret of each of `webhooks`"


def hosts(config: Config) -> frozenset[str]:
    """Return the names that callers may know the listener by, besides this machine's own."""
    names = {name.lower() for name in config.http.hosts}
    if config.http.public_url:
        names.add(urlsplit(config.http.public_url).hostname or "")
    if uses_webhook(config) and config.telegram.webhook.url:
        names.add(urlsplit(config.telegram.webhook.url).hostname or "")
    return frozenset(names)


def pages(config: Config) -> frozenset[str]:
    """Return the origins of pages that may call: those configured, and with `http.web` the public one of our own."""
    public = urlsplit(config.http.public_url or "")
    own = {f"{public.scheme}://{public.netloc}".lower()} if config.http.web and public.netloc else set()
    return frozenset(config.http.origins) | own


def webhook_path(telegram: TelegramSettings) -> str:
    """Return the path for Telegram's updates: `telegram.webhook.path`, else the path of its URL."""
    webhook = telegram.webhook
    return webhook.path or urlsplit(webhook.url or "").path or "/"


def contradictions(config: Config) -> Iterator[tuple[Loc, str]]:
    """Yield settings of the listener and the webhook that are fine alone but not together."""
    if config.http.enabled is not False and not is_loopback(config.http.host) and not any(credentials(config)):
        yield (
            ("http", "host"),
            "is open to other machines, but no setting requires a credential (`http.api`, `http.clients`, "
            "`http.metrics`, `http.openai`, `http.web`, `telegram.mode: webhook`, `webhooks`); use 127.0.0.1 and put "
            "a reverse proxy in front of it",
        )
    for key in FOR_TOKENS:
        if getattr(config.http, key) and config.http.enabled is False:
            yield ("http", "enabled"), f"should be true or unset: `http.{key}` needs the listener"
    yield from _web_contradictions(config)
    if config.webhooks and config.http.enabled is False:
        yield ("http", "enabled"), "should be true or unset: `webhooks` need the listener"
    if config.mcp.server.enabled and config.mcp.server.port == config.http.port != 0 and listens(config):
        yield ("mcp", "server", "port"), "is the port of the HTTP listener (`http.port`); choose another one"
    yield from _registry_contradictions(config)
    if uses_webhook(config):
        yield from _webhook_contradictions(config)


def _web_contradictions(config: Config) -> Iterator[tuple[Loc, str]]:
    """Yield where passwords of a kind would go over a network in plain text: the listener speaks no TLS."""
    if not config.http.web:
        return
    url = urlsplit(config.http.public_url or "")
    if config.http.public_url and url.scheme != "https" and not is_loopback(url.hostname or ""):
        yield (
            ("http", "public_url"),
            "should begin with https://: with `http.web` people sign in there, and the listener has no TLS; put a "
            "reverse proxy in front of it (docs/web-page.md)",
        )
    elif url.scheme != "https" and not is_loopback(config.http.host):
        yield (
            ("http", "host"),
            "is open to other machines, and the listener has no TLS: with `http.web` use 127.0.0.1 and put a reverse "
            "proxy in front of it, or set `http.public_url` to the https address of an existing proxy",
        )


def _registry_contradictions(config: Config) -> Iterator[tuple[Loc, str]]:
    """Yield contradictions of the registry's settings: its port is checked only where a registry is served."""
    if "registry_server" not in config.model_fields_set or not config.registry_server.port:
        return
    taken = {"mcp.server.port": config.mcp.server.port} if config.mcp.server.enabled else {}
    taken |= {"http.port": config.http.port} if listens(config) else {}
    for key, port in taken.items():
        if port == config.registry_server.port:
            yield ("registry_server", "port"), f"is the port of `{key}`; choose another one"


def _webhook_contradictions(config: Config) -> Iterator[tuple[Loc, str]]:
    if config.http.enabled is False:
        yield ("http", "enabled"), "should be true or unset: `telegram.mode: webhook` needs the listener"
    url = config.telegram.webhook.url
    if url is None:
        loc: Loc = ("telegram", "mode")
        yield loc, "`webhook` needs `telegram.webhook.url`, the https address under which Telegram reaches this machine"
        return
    # A Bot API server of one's own calls any address (Bot API, "Using a Local Bot API Server").
    if config.telegram.base_url == type(config.telegram).model_fields["base_url"].default:
        parts = urlsplit(url)
        if parts.scheme != "https" or (parts.port or 443) not in TELEGRAM_PORTS:
            ports = ", ".join(map(str, TELEGRAM_PORTS))
            yield ("telegram", "webhook", "url"), f"should begin with https:// and use one of the ports {ports}"
    taken = (*PROBES, CLIENTS, METRICS, *(f"{HOOKS}{name}" for name in config.webhooks))
    path = webhook_path(config.telegram)
    if path in taken:
        yield ("telegram", "webhook", "path"), f"should not be one of {', '.join(taken)}"
    for switch, prefix in (("api", API), ("openai", OPENAI), ("web", WEB)):
        if serves(config, switch) and path.startswith(prefix):
            needs = switch if getattr(config.http, switch) else "web"
            yield ("telegram", "webhook", "path"), f"should not begin with {prefix}, which `http.{needs}` uses"
    if config.http.web and path == "/":
        yield ("telegram", "webhook", "path"), "should not be `/`, which `http.web` uses; end the URL with /telegram"


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


def may_publish_to(config: Config, registry: str) -> bool:
    """Whether anything can be published to the registry of that name; to the public one its own program publishes."""
    settings = config.registries.get(registry)
    return settings is not None and not settings.is_public


def hindrances(config: Config) -> Iterator[tuple[str, str]]:
    """Yield what prevents sets from being published as configured: the place, and the reason with the remedy."""
    if not config.publications:
        return
    for each in config.publications:
        yield from ((f"{each.place}.publish_to", why) for why in _hindrances_of(config, each))
    if not config.mcp.server.enabled:
        why = "is not set, so no gateway could use what `publish_to` publishes; set it to true"
        yield "mcp.server.enabled", why
    elif not public_address(config):
        yield (
            "mcp.server.public_url",
            f"is needed for `publish_to`: other gateways cannot reach {config.mcp.server.host}; set it to the address "
            "where they reach the MCP server",
        )
    elif is_loopback(urlsplit(public_address(config)).hostname or "") and not all(_registries_here(config)):
        yield (
            "mcp.server.public_url",
            "is unset or means only this machine, so no other machine can use what you publish; set it to the address "
            "where others reach the MCP server",
        )


def _hindrances_of(config: Config, each: Publication) -> Iterator[str]:
    for name in each.settings.publish_to:
        if name not in config.registries:
            yield f"unknown registry `{name}`{what_helps(name, config.registries)}"
        elif not may_publish_to(config, name):
            yield (
                f"the registry `{name}` has the format of the public MCP registry, which accepts entries only from its "
                "own program; name another registry"
            )
    if not each.agent and each.toolset not in (known_sets := Toolsets(config.toolsets).names):
        meant = closest(each.toolset, known_sets)
        yield f"unknown set `{each.toolset}`; {f'did you mean `{meant}`?' if meant else 'define it in `tools.sets`'}"


def _registries_here(config: Config) -> Iterator[bool]:
    """Yield whether each registry to publish to is on this machine."""
    named = {name for each in config.publications for name in each.settings.publish_to}
    return (
        is_loopback(urlsplit(config.registries[name].url).hostname or "") for name in named & set(config.registries)
    )

"""Settings that work and protect less than they could, each with what helps."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from goclaw.common.config.keys import Loc
from goclaw.common.config.listening import is_loopback, listens, uses_webhook
from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config
from goclaw.common.core.container import is_container
from goclaw.common.core.files import lies_inside, shown_path
from goclaw.common.core.redact import mask
from goclaw.program.ops.doctor.base import Finding, weak

_STEERING = re.compile(
    r"PATH|LD_\w+|PYTHON\w+|PERL5\w+|RUBY(LIB|OPT)|NODE_\w+|GIT_\w+|\w+_proxy|HOME|TMPDIR", re.IGNORECASE
)
"""Variables that decide which code common programs load, or where they connect to."""
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_GIVEN_AWAY = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)[=:].|^(gh[pousr]|github_pat|xox[abp])[-_]", re.IGNORECASE
)
"""Words of a command that bring a secret, beside those that `redact.mask` knows by their form."""
_BOT_TOKEN = re.compile(r"[0-9]{6,}:[A-Za-z0-9_-]{30,}")


def weak_settings(loaded: Loaded) -> Iterator[Finding]:
    """Yield weaknesses of the configuration itself."""
    config = loaded.config
    yield from _commands(config)
    yield from _hooks(config)
    yield from _policy(config)
    yield from _listener(config)
    yield from _servers(config)
    yield from _mcp(config)
    yield from _registries(config)
    yield from _inline_secrets(loaded)


def _commands(config: Config) -> Iterator[Finding]:
    settings = config.tools.exec
    if settings.sandbox == "off":
        yield weak(
            "tools.exec.sandbox is off: commands run with all rights of this account (they ask first)",
            "take `tools.exec.sandbox` out of the configuration; `goclaw doctor` says which tier works here",
        )
    if settings.network == "host":
        yield weak(
            "tools.exec.network is host: commands reach the network and this machine's own services (they ask first)",
            "set `tools.exec.network` to `none`, or to `proxy` for public hosts alone",
        )
    if settings.network == "proxy" and settings.sandbox == "off":
        yield weak(
            "tools.exec.sandbox is off, so that tools.exec.network: proxy holds back nothing",
            "take `tools.exec.sandbox` out of the configuration",
        )
    for name in settings.env:
        if _STEERING.fullmatch(name):
            yield weak(
                f"tools.exec.env sets {name}, which steers programs: it should lead to nothing in the workspace",
                f"take {name} out of `tools.exec.env`, or let it lead only where the agent cannot write",
            )
        if _SECRET.search(name):
            yield weak(
                f"tools.exec.env sets {name}: every user who may use exec, and the model, can read it",
                f"take {name} out of `tools.exec.env`, or give it no more rights than these people may have",
            )


def _hooks(config: Config) -> Iterator[Finding]:
    for index, hook in enumerate(config.hooks):
        if not hook.sandbox:
            yield weak(
                f"hooks[{index}].sandbox is false: {mask(hook.label)} runs with all rights of this account",
                "take `sandbox: false` out, unless the hook needs the network or files outside of the workspace",
            )
        paths = [config.workspace_path / word for word in hook.command if "/" in word]
        for path in paths:
            if not lies_inside(path, config.workspace_path):
                continue
            yield weak(
                f"hooks[{index}].command names {shown_path(path)}: it lies in the workspace, where the agent can "
                "change it",
                "move it where the agent cannot write, such as /etc/goclaw",
            )


def _policy(config: Config) -> Iterator[Finding]:
    if config.policy.mode == "bypass":
        yield weak(
            "policy.mode is bypass: no call of an admin's turn asks anybody, injected ones included",
            "set `policy.mode` to `default`",
        )
    elif config.policy.allow_bypass:
        yield weak(
            "policy.allow_bypass is true: admins may switch off every question", "take `policy.allow_bypass` out"
        )
    if config.policy.auto_allow:
        named = ", ".join(config.policy.auto_allow)
        yield weak(
            f"policy.auto_allow lets run without asking what asks elsewhere, injected calls included: {named}",
            "take out of `policy.auto_allow` what people can just as well be asked for",
        )
    if not config.audit.enabled:
        yield weak(
            "audit.enabled is false: nothing says afterwards who did what",
            "take `audit.enabled` out of the configuration",
        )
    if config.log_level == "DEBUG":
        yield weak(
            "log_level is DEBUG: the log tells more of people and their files than running a daemon needs",
            "set `log_level` to INFO when you have found what you look for",
        )


def _listener(config: Config) -> Iterator[Finding]:
    if not is_loopback(config.http.host):
        now = "is" if listens(config) else "would be"
        yield weak(
            f"http.host is {config.http.host}: the listener {now} open to other machines, and it speaks no TLS",
            "set `http.host` to 127.0.0.1 and put a reverse proxy with https before it (docs/http.md)",
        )
    if uses_webhook(config) and urlsplit(config.telegram.webhook.url or "").scheme != "https":
        yield weak(
            "telegram.webhook.url is not https: messages and the webhook's secret can be read on the way",
            "give it an https address, or let the Bot API server call over loopback",
        )


def _mcp(config: Config) -> Iterator[Finding]:
    server = config.mcp.server
    if server.enabled and not is_loopback(server.host):
        yield weak(
            f"mcp.server.host is {server.host}: the listener is open to other machines, and it speaks no TLS",
            "set `mcp.server.host` to 127.0.0.1 and put a reverse proxy with https before it (docs/mcp.md)",
        )
    if server.elicitation:
        yield weak(
            "mcp.server.elicitation is true: a program can answer what asks first, and passes for its person",
            "take `mcp.server.elicitation` out, unless you trust each client with that",
        )
    for name, settings in config.mcp.servers.items():
        key = f"mcp.servers.{name}"
        if settings.sampling and settings.sampling.enabled and not settings.sampling.ask:
            yield weak(
                f"{key}.sampling.ask is false: the server asks the model, and spends, without anybody agreeing",
                f"take `{key}.sampling.ask` out, unless the server is yours",
            )
        if any(_GIVEN_AWAY.search(word) or mask(word) != word for word in settings.args):
            yield weak(
                f"{key}.args seems to hold a secret: everybody on this machine can read the words of a command",
                f"give it in `{key}.env` instead, where the program takes it from there",
            )


def _servers(config: Config) -> Iterator[Finding]:
    token = config.telegram.token
    if token and not _BOT_TOKEN.fullmatch(token.get_secret_value()):
        yield weak(
            "telegram.token does not look like a bot's token (123456:ABC…)", "copy it again from @BotFather, whole"
        )
    for name, url in _urls(config):
        parts = urlsplit(url)
        if parts.scheme == "http" and not _stays_here(parts.hostname or ""):
            yield weak(
                f"{name} is not encrypted: keys and messages can be read on the way to {parts.hostname}",
                "use its https address, or a tunnel that ends on this machine",
            )


def _stays_here(host: str) -> bool:
    """Tell whether `host` is on this machine; in a container, a name without a dot is another service."""
    return is_loopback(host) or (is_container() and "." not in host and ":" not in host)


def _urls(config: Config) -> Iterator[tuple[str, str]]:
    yield "telegram.base_url", config.telegram.base_url
    for name, settings in config.providers.items():
        if settings.base_url:
            yield f"providers.{name}.base_url", settings.base_url
    for name, server in config.mcp.servers.items():
        if server.url:
            yield f"mcp.servers.{name}.url", server.url
    for name, registry in config.registries.items():
        yield f"registries.{name}.url", registry.url


def _inline_secrets(loaded: Loaded) -> Iterator[Finding]:
    """Yield passwords in places that are shown with the configuration."""
    urls: list[tuple[Loc, str | None]] = [(("telegram", "proxy"), loaded.config.telegram.proxy)]
    urls += [(("providers", name, "base_url"), entry.base_url) for name, entry in loaded.config.providers.items()]
    for loc, url in urls:
        key = ".".join(map(str, loc))
        if url and urlsplit(url).password and loaded.path and loaded.origin(loc).startswith(shown_path(loaded.path)):
            file = "__".join(map(str, loc))
            yield weak(
                f"{key} has a password in {loaded.path.name}",
                f"put the whole address into the file secrets/{file} of the state folder (mode 600) instead",
            )


def _registries(config: Config) -> Iterator[Finding]:
    """Yield weaknesses in the use and service of registries."""
    for name, line in config.tools.from_registry.items():
        key = f"tools.from_registry.{name}"
        if line.enabled and not line.version and line.packages:
            yield weak(
                f"{key}.packages is true without a version: the publisher of the next version can run code as you",
                f"name the version that you have looked at in `{key}.version`, and its `sha256`",
            )
        if line.enabled and not line.version and line.headers:
            yield weak(
                f"{key}.headers go to whatever address the newest version names",
                f"name the version that you have looked at in `{key}.version`, and its `sha256`",
            )
    if "registry_server" not in config.model_fields_set or is_loopback(config.registry_server.host):
        return
    host = config.registry_server.host
    yield weak(
        f"registry_server.host is {host}: the registry is open to other machines, and it speaks no TLS",
        "set `registry_server.host` to 127.0.0.1 and put a reverse proxy with https before it (docs/registries.md)",
    )
    if config.registry_server.open:
        yield weak(
            "registry_server.open is true: anyone who reaches the registry may read everything published there",
            "take `registry_server.open` out, unless all of it is for everybody",
        )

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
"""Words of a command that precede a secret, besides those that `redact.mask` recognises by their form."""
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
            "tools.exec.sandbox is off: commands run with all rights of this account (after approval)",
            "remove `tools.exec.sandbox` from the configuration; `goclaw doctor` says which sandbox works here",
        )
    if config.documents.unsandboxed:
        yield weak(
            "documents.unsandboxed is true: where no sandbox works, whoever sends a document can attack this account",
            "remove `documents.unsandboxed` from the configuration, unless you trust all who send documents",
        )
    if settings.network == "host":
        yield weak(
            "tools.exec.network is host: commands reach the network and this machine's own services (after approval)",
            "set `tools.exec.network` to `none`, or to `proxy` for public hosts only",
        )
    if settings.network == "proxy" and settings.sandbox == "off":
        yield weak(
            "tools.exec.sandbox is off, so tools.exec.network: proxy has no effect",
            "remove `tools.exec.sandbox` from the configuration",
        )
    for name in settings.env:
        if _STEERING.fullmatch(name):
            yield weak(
                f"tools.exec.env sets {name}, which controls programs: it should not point into the workspace",
                f"remove {name} from `tools.exec.env`, or point it where the agent cannot write",
            )
        if _SECRET.search(name):
            yield weak(
                f"tools.exec.env sets {name}: the model and every user of exec can read it",
                f"remove {name} from `tools.exec.env`, or limit its rights to what these people may do",
            )


def _hooks(config: Config) -> Iterator[Finding]:
    for index, hook in enumerate(config.hooks):
        if not hook.sandbox:
            yield weak(
                f"hooks[{index}].sandbox is false: {mask(hook.label)} runs with all rights of this account",
                "remove `sandbox: false`, unless the hook needs the network or files outside of the workspace",
            )
        for path in (config.workspace_path / word for word in hook.command if "/" in word):
            if lies_inside(path, config.workspace_path):
                yield weak(
                    f"hooks[{index}].command names {shown_path(path)}, which is inside the workspace, where the agent "
                    "can change it",
                    "move it where the agent cannot write, such as /etc/goclaw",
                )


def _policy(config: Config) -> Iterator[Finding]:
    if config.policy.mode == "bypass":
        yield weak(
            "policy.mode is bypass: no call in an admin's turn needs approval, not even injected ones",
            "set `policy.mode` to `default`",
        )
    elif config.policy.allow_bypass:
        yield weak("policy.allow_bypass is true: admins may switch off all approvals", "remove `policy.allow_bypass`")
    if config.policy.auto_allow:
        named = ", ".join(config.policy.auto_allow)
        yield weak(
            f"policy.auto_allow lets these calls run without approval, even injected ones: {named}",
            "remove from `policy.auto_allow` what people can approve themselves",
        )
    for name, role in config.roles.items():
        if role.guard == "off":
            yield weak(
                f"roles.{name}.guard is off: a page that the agent reads can have it carry private data out, unasked",
                f"remove `roles.{name}.guard`, or set it to `ask`",
            )
    if not config.audit.enabled:
        yield weak(
            "audit.enabled is false: nothing records who did what", "remove `audit.enabled` from the configuration"
        )
    if config.log_level == "DEBUG":
        yield weak(
            "log_level is DEBUG: the log contains more about people and their files than you need in normal use",
            "set `log_level` to INFO when you have found the problem",
        )


def _listener(config: Config) -> Iterator[Finding]:
    if not is_loopback(config.http.host):
        now = "is" if listens(config) else "would be"
        yield weak(
            f"http.host is {config.http.host}: the listener {now} open to other machines without TLS",
            "set `http.host` to 127.0.0.1 and put a reverse proxy with https in front of it (docs/http.md)",
        )
    if uses_webhook(config) and urlsplit(config.telegram.webhook.url or "").scheme != "https":
        yield weak(
            "telegram.webhook.url is not https: others can read messages and the webhook's secret on the network",
            "use an https address, or let the Bot API server call over loopback",
        )


def _mcp(config: Config) -> Iterator[Finding]:
    server = config.mcp.server
    if server.enabled and not is_loopback(server.host):
        yield weak(
            f"mcp.server.host is {server.host}: the listener is open to other machines without TLS",
            "set `mcp.server.host` to 127.0.0.1 and put a reverse proxy with https in front of it (docs/mcp.md)",
        )
    if server.elicitation:
        yield weak(
            "mcp.server.elicitation is true: a program can approve calls in place of its user",
            "remove `mcp.server.elicitation`, unless you trust every client with that",
        )
    for name, settings in config.mcp.servers.items():
        key = f"mcp.servers.{name}"
        if settings.sampling and settings.sampling.enabled and not settings.sampling.ask:
            yield weak(
                f"{key}.sampling.ask is false: the server uses the model, at your cost, without approval",
                f"remove `{key}.sampling.ask`, unless the server is yours",
            )
        if any(_GIVEN_AWAY.search(word) or mask(word) != word for word in settings.args):
            yield weak(
                f"{key}.args seems to contain a secret: everybody on this machine can read a command's arguments",
                f"put it in `{key}.env` instead, if the program reads it from there",
            )


def _servers(config: Config) -> Iterator[Finding]:
    token = config.telegram.token
    if token and not _BOT_TOKEN.fullmatch(token.get_secret_value()):
        yield weak(
            "telegram.token does not look like a bot's token (123456:ABC…)",
            "copy the whole token again from @BotFather",
        )
    for name, url in _urls(config):
        parts = urlsplit(url)
        host = parts.hostname or ""
        # In a container, a name without a dot is another service of this machine.
        stays_here = is_loopback(host) or (is_container() and "." not in host and ":" not in host)
        if parts.scheme == "http" and not stays_here:
            yield weak(
                f"{name} is not encrypted: others can read keys and messages on the way to {parts.hostname}",
                "use its https address, or a tunnel that ends on this machine",
            )


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
                f"{key} contains a password in {loaded.path.name}",
                f"put the whole address in the file secrets/{file} of the state folder (mode 600) instead",
            )


def _registries(config: Config) -> Iterator[Finding]:
    """Yield weaknesses in the use and service of registries."""
    for name, line in config.tools.from_registry.items():
        key = f"tools.from_registry.{name}"
        if not line.enabled or line.version:
            continue
        remedy = f"set `{key}.version` to a version that you have checked, and its `sha256`"
        if line.packages:
            danger = "whoever publishes the next version can run code as you"
            yield weak(f"{key}.packages is true without a version: {danger}", remedy)
        if line.headers:
            yield weak(f"{key}.headers are sent to any address that the newest version names", remedy)
    if "registry_server" not in config.model_fields_set or is_loopback(config.registry_server.host):
        return
    host = config.registry_server.host
    yield weak(
        f"registry_server.host is {host}: the registry is open to other machines without TLS",
        "set `registry_server.host` to 127.0.0.1 and put a reverse proxy with https in front (docs/registries.md)",
    )
    if config.registry_server.open:
        yield weak(
            "registry_server.open is true: anyone who can reach the registry may read everything in it",
            "remove `registry_server.open`, unless everything in it is public",
        )

"""The Model Context Protocol: whether clients can come in (`mcp.server`), and whether servers can ask (`sampling`).

Each server of `mcp.servers` is tried with the tools (`doctor.tools`); what protects too little is in `weak_settings`.
"""

import asyncio
from collections.abc import Iterator

import aiohttp

from goclaw import catalog
from goclaw.clock import RealClock
from goclaw.config.listening import is_loopback
from goclaw.config.load import Loaded
from goclaw.config.schema import Config
from goclaw.doctor.base import Finding, Verdict
from goclaw.doctor.listener import is_ours, try_port
from goclaw.errors import ConfigError
from goclaw.llm.base import ModelPorts
from goclaw.llm.open import open_chain
from goclaw.net import open_client
from goclaw.plugins import load
from goclaw.servers.mcp.backend import McpPart
from goclaw.servers.mcp.declarations import looked_at
from goclaw.state import running_pid
from goclaw.tokens import read_tokens


async def check_mcp(loaded: Loaded) -> list[Finding]:
    """Check the listener and sampling; no findings where neither is configured."""
    config, found = loaded.config, list[Finding]()
    if config.mcp.server.enabled:
        found += [*await _listener(config), *await asyncio.to_thread(lambda: list(_around(config)))]
    return [*found, *await _sampling(config)]


async def _listener(config: Config) -> list[Finding]:
    """Check that it listens, or could."""
    host, port = config.mcp.server.host, config.mcp.server.port
    try:
        await asyncio.to_thread(load, catalog.SERVERS["mcp"], McpPart)
    except ConfigError as error:
        return [
            _found("problem", f"clients cannot come in: {error}", "install GoClaw anew: a library of it is missing")
        ]
    if port == 0:
        return [_found("ok", f"{host}, a free port; the log and `goclaw status` name it")]
    if running_pid(config) is None:
        return [await asyncio.to_thread(try_port, host, port, "mcp", "mcp.server.port")]
    return [await _asked(host, port)]


async def _asked(host: str, port: int) -> Finding:
    """Check that the server there is ours."""
    try:
        async with open_client() as http:
            ours = await is_ours(http, host, port, "/mcp")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        why = str(error) or "it took too long"
        return _found(
            "problem", f"{host} port {port} does not answer: {why}", "`goclaw restart`; `goclaw logs` says why"
        )
    if ours:
        return _found("ok", f"{host} port {port}: clients may come in")
    remedy = "choose another `mcp.server.port`, or end the program that has it"
    return _found("problem", f"another program answers at {host} port {port}", remedy)


def _around(config: Config) -> Iterator[Finding]:
    """Yield findings on clients, allowed host names and additions of packages."""
    settings = config.mcp.server
    others = "" if is_loopback(settings.host) else ", and yet the port is open to other machines"
    try:
        tokens = read_tokens(config.tokens_path)
    except ConfigError:
        tokens = {}  # `security` says what is wrong with the file
    now = RealClock().now()
    if not any(token.until is None or token.until > now for token in tokens.values()):
        remedy = "`goclaw token add NAME --user KEY`"
        yield _found("warning", f"no access token is valid, so that no client can come in{others}", remedy)
    if others and not settings.names:
        words = "clients on other machines can call it by its address only: any other name is refused"
        yield _found("warning", words, "put the name that they use, a reverse proxy's as well, into `mcp.server.hosts`")
    for title, declared, fault in looked_at():
        if declared is None:
            remedy = "update or uninstall the package; everything else works without it"
            yield _found("warning", f"{title}: {fault}", remedy)


async def _sampling(config: Config) -> list[Finding]:
    """Find models that should answer servers, and cannot be opened."""
    wanted = {
        f"mcp.servers.{name}.sampling.models": server.sampling.models
        for name, server in config.mcp.servers.items()
        if server.enabled and server.sampling and server.sampling.enabled and server.sampling.models
    }
    found = list[Finding]()
    if not wanted:
        return found
    async with open_client() as http:
        ports = ModelPorts(http, _no_image, RealClock())
        for key, models in wanted.items():
            try:
                open_chain(models, config, ports)
            except ConfigError as error:
                found.append(_found("problem", f"{key}: {error}", f"mend `{key}`; the server is refused until then"))
    return found


async def _no_image(key: str) -> bytes:
    raise AssertionError(f"no picture is asked for here: {key}")


def _found(verdict: Verdict, text: str, remedy: str = "") -> Finding:
    return Finding("mcp", verdict, text, remedy)

"""Checks of what others reach here: the HTTP listener, the MCP server, publications.

A port answers, or could be had. For MCP, whether clients can connect (`mcp.server`) and servers can ask (`sampling`):
each server of `mcp.servers` is tried with the tools (`doctor.tools`).
"""

import asyncio
import socket
from collections.abc import Iterator
from http import HTTPStatus

import aiohttp

from goclaw.common.auth.tokens import read_tokens
from goclaw.common.config.listening import EVERYWHERE, hindrances, in_url, is_loopback, listens, public_address
from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config
from goclaw.common.config.state import running_pid
from goclaw.common.core import catalog
from goclaw.common.core.clock import RealClock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.plugins import load
from goclaw.common.net import open_client
from goclaw.errors import ConfigError
from goclaw.gateway.servers.http import HEADERS
from goclaw.gateway.servers.mcp.backend import McpPart
from goclaw.gateway.servers.mcp.declarations import looked_at
from goclaw.llm.open import open_chain
from goclaw.program.ops.call_styles import trial_ports
from goclaw.program.ops.doctor.base import Finding, Verdict

UNUSED_HOST = "goclaw-doctor.invalid"
"""A host name that no client uses: a listener of ours refuses it, and logs nothing."""
ASKED_SECONDS = 5.0


async def check_listener(loaded: Loaded) -> list[Finding]:
    """Ask the running daemon; without one try the port."""
    config, host, port = loaded.config, loaded.config.http.host, loaded.config.http.port
    if not listens(config):
        return [Finding("http", "ok", "the listener is off: nothing needs it")]
    if port == 0:
        return [Finding("http", "ok", f"{host}, any free port; the log shows which")]
    if running_pid(config) is None:
        return [await asyncio.to_thread(try_port, host, port)]
    try:
        async with open_client() as http, http.get(f"http://{reachable(host)}:{port}/readyz") as response:
            state = await response.json(content_type=None)
    except (aiohttp.ClientError, ValueError, OSError) as error:
        return [Finding("http", "problem", f"{host} port {port} does not answer: {error}", daemon_command("restart"))]
    if response.status == HTTPStatus.OK:
        return [Finding("http", "ok", f"{host} port {port}: ready")]
    reasons = "; ".join(map(str, state.get("problems", ()))) if isinstance(state, dict) else ""
    return [Finding("http", "warning", f"{host} port {port}: not ready: {reasons or response.status}")]


def try_port(host: str, port: int, check: str = "http", key: str = "http.port") -> Finding:
    """Check that the daemon could listen there; `key` is where another port is chosen. Blocks."""
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return Finding(check, "ok", f"{host} port {port} is free for the listener")
    except OSError as error:
        remedy = f"choose another `{key}`, or stop the program that uses the port"
        return Finding(check, "problem", f"the listener cannot use {host} port {port}: {error.strerror}", remedy)


async def is_ours(http: aiohttp.ClientSession, host: str, port: int, path: str) -> bool:
    """Whether what answers there is a listener of ours.

    Raises:
        aiohttp.ClientError, OSError, TimeoutError: nothing answers.
    """
    async with (
        asyncio.timeout(ASKED_SECONDS),
        http.get(f"http://{reachable(host)}:{port}{path}", headers={"Host": UNUSED_HOST}) as response,
    ):
        is_marked = all(response.headers.get(name) == value for name, value in HEADERS.items())
        return response.status == HTTPStatus.MISDIRECTED_REQUEST and is_marked


def reachable(host: str) -> str:
    """Return the host of the URL under which this machine itself reaches a listener."""
    return in_url(EVERYWHERE.get(host, host))


async def check_mcp(loaded: Loaded) -> list[Finding]:
    """Check the listener and sampling; no findings where neither is configured."""
    config, found = loaded.config, list[Finding]()
    if config.mcp.server.enabled:
        found += [*await _mcp_listener(config), *await asyncio.to_thread(lambda: list(_mcp_clients(config)))]
    return [*found, *await _mcp_sampling(config)]


async def _mcp_listener(config: Config) -> list[Finding]:
    """Check that it listens, or could."""
    host, port = config.mcp.server.host, config.mcp.server.port
    try:
        await asyncio.to_thread(load, catalog.SERVERS["mcp"], McpPart)
    except ConfigError as error:
        remedy = "reinstall GoClaw: one of its libraries is missing"
        return [_mcp_finding("problem", f"clients cannot connect: {error}", remedy)]
    if port == 0:
        return [_mcp_finding("ok", f"{host}, any free port; the log and `goclaw status` show which")]
    if running_pid(config) is None:
        return [await asyncio.to_thread(try_port, host, port, "mcp", "mcp.server.port")]
    try:
        async with open_client() as http:
            ours = await is_ours(http, host, port, "/mcp")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        why = str(error) or "it took too long"
        remedy = f"{daemon_command('restart')}; `goclaw logs` says why"
        return [_mcp_finding("problem", f"{host} port {port} does not answer: {why}", remedy)]
    if ours:
        return [_mcp_finding("ok", f"{host} port {port}: ready for clients")]
    remedy = "choose another `mcp.server.port`, or stop the program that uses the port"
    return [_mcp_finding("problem", f"another program answers at {host} port {port}", remedy)]


def _mcp_clients(config: Config) -> Iterator[Finding]:
    """Yield findings on clients, allowed host names and additions of packages."""
    settings = config.mcp.server
    others = "" if is_loopback(settings.host) else ", although the port is open to other machines"
    try:
        tokens = read_tokens(config.tokens_path)
    except ConfigError:
        tokens = {}  # `security` says what is wrong with the file
    now = RealClock().now()
    if not any(token.until is None or token.until > now for token in tokens.values()):
        remedy = "`goclaw token add NAME --user KEY`"
        yield _mcp_finding("warning", f"there is no valid access token, so no client can connect{others}", remedy)
    if others and not settings.names:
        words = "clients on other machines must use the IP address: it refuses every other name"
        remedy = "add the name that they use, or that of the reverse proxy, to `mcp.server.hosts`"
        yield _mcp_finding("warning", words, remedy)
    for title, declared, fault in looked_at():
        if declared is None:
            remedy = "update or uninstall the package; everything else works without it"
            yield _mcp_finding("warning", f"{title}: {fault}", remedy)


async def _mcp_sampling(config: Config) -> list[Finding]:
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
        ports = trial_ports(http)
        for key, models in wanted.items():
            try:
                open_chain(models, config, ports)
            except ConfigError as error:
                remedy = f"fix `{key}`; until then the server is not used"
                found.append(_mcp_finding("problem", f"{key}: {error}", remedy))
    return found


def _mcp_finding(verdict: Verdict, text: str, remedy: str = "") -> Finding:
    return Finding("mcp", verdict, text, remedy)


async def check_publishing(loaded: Loaded) -> list[Finding]:
    """Return a finding for each hindrance, else one with the address; no findings without publications."""
    config = loaded.config
    if not config.publications:
        return []
    if found := list(hindrances(config)):
        return [Finding("publishing", "warning", f"{place}: {why}", "docs/registries.md") for place, why in found]
    sets = ", ".join(f"{each.name} to {' and '.join(each.settings.publish_to)}" for each in config.publications)
    return [Finding("publishing", "ok", f"{sets}; others see the address {public_address(config)}")]

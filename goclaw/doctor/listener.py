"""A check that the HTTP listener answers, or could have its port."""

import asyncio
import socket
from http import HTTPStatus

import aiohttp

from goclaw.config.listening import EVERYWHERE, in_url, listens
from goclaw.config.schema import Config
from goclaw.doctor.base import Finding
from goclaw.net import open_client
from goclaw.servers.listener import HEADERS
from goclaw.state import running_pid

UNUSED_HOST = "goclaw-doctor.invalid"
"""A host name that no client uses: a listener of ours refuses it, and logs nothing."""
ASKED_SECONDS = 5.0


async def check_listener(config: Config) -> list[Finding]:
    """Ask the running daemon; without one try the port."""
    host, port = config.http.host, config.http.port
    if not listens(config):
        return [Finding("http", "ok", "the listener is off: nothing needs it")]
    if port == 0:
        return [Finding("http", "ok", f"{host}, a free port; the log names it")]
    if running_pid(config) is None:
        return [await asyncio.to_thread(try_port, host, port)]
    try:
        async with open_client() as http, http.get(f"http://{reachable(host)}:{port}/readyz") as response:
            state = await response.json(content_type=None)
    except (aiohttp.ClientError, ValueError, OSError) as error:
        return [Finding("http", "problem", f"{host} port {port} does not answer: {error}", "`goclaw restart`")]
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
        remedy = f"choose another `{key}`, or end the program that has it"
        return Finding(check, "problem", f"the listener cannot have {host} port {port}: {error.strerror}", remedy)


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

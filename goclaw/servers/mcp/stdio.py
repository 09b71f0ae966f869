"""The protocol on this process's standard input and output: for one client, which started it."""

from mcp.server.stdio import stdio_server

from goclaw.events import Actor
from goclaw.servers.mcp.backend import McpBackend
from goclaw.servers.mcp.offer import ClientCall, open_offer

CONNECTION = "stdio"


async def serve_stdio(backend: McpBackend, actor: Actor) -> None:
    """Serve the client as `actor` until it closes our input.

    Meanwhile nothing else may read standard input, and prints of other code go to standard error: the library handles
    both.
    """
    caller = ClientCall(actor, CONNECTION)
    async with open_offer(backend, lambda ctx: caller) as offer, stdio_server() as (incoming, outgoing):
        await offer.server.run(incoming, outgoing, offer.server.create_initialization_options())

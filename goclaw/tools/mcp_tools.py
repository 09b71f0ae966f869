"""A tool of an MCP server as one of ours: its arguments from the server's schema, its risk from its annotations.

Everything else is as for every tool. Loaded when there are servers: what checks schemas takes its time to import.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from goclaw.audit import AuditEntry
from goclaw.errors import ToolError
from goclaw.mcp.approved_tools import ApprovedTools
from goclaw.mcp.base import PromptDefinition
from goclaw.mcp.servers import McpServers, ServerState
from goclaw.mcp.validation import OfferedTool
from goclaw.specs import Confirmation, Risk, SideEffect, ToolSpec
from goclaw.toolkit.base import Tool, ToolContext
from goclaw.toolkit.consent import Grounds
from goclaw.toolkit.prompting import LivePrompt
from goclaw.toolkit.results import ResultType
from goclaw.toolkit.scheduling import ResourceUse
from goclaw.toolkit.schemas import Checked, SchemaArguments, UnusableSchema, arguments_by, in_words
from goclaw.toolkit.signature import Takes
from goclaw.tools.mcp_answers import McpAnswer, answer_of
from goclaw.tools.mcp_calling import calling
from goclaw.tools.mcp_prompts import prompts_of
from goclaw.tools.mcp_resources import resource_tools
from goclaw.tools.mcp_source import WorkshopPart

_SIDE_EFFECT = {
    Risk.LOW: SideEffect.READ_ONLY,
    Risk.HIGH: SideEffect.NETWORK,
    Risk.CRITICAL: SideEffect.SPAWNS,
}
"""By the risk that the annotations say."""
_CHANGED = Confirmation(
    "The server has changed this tool",
    "It is not what was agreed to before. Below is what changed, in the server's words. When an admin approves this "
    "call, the new definition is agreed to, too; anybody else's yes is for this call alone.",
)


class _Workshop:
    """Implements `mcp_source.Workshop`."""

    def make(self, offered: OfferedTool, server: ServerState, known: ApprovedTools) -> Tool:
        """Make the tool of an offered definition.

        Raises:
            ValueError: one of its schemas is invalid.
        """
        try:
            arguments = arguments_by(offered.definition.input_schema, offered.schema)
            output = offered.definition.output_schema
            checked = Checked(output) if output is not None else None
        except UnusableSchema as error:
            raise ValueError(f"its schema cannot be used: {error}") from None
        changed = _Changed(offered, server, known) if known.changes(server.name, offered.definition) else None
        return Tool(
            spec=_spec(offered, server.settings.tags, confirm=_CHANGED if changed else None),
            arguments=arguments,
            run=_run(offered, server, checked, changed),
            own_timeout=True,
            grounds=changed.grounds if changed else None,
            access=_access(offered),
            result=ResultType(McpAnswer),
            takes=Takes.MODEL,
        )

    def own(self, servers: McpServers) -> tuple[Tool, ...]:
        return resource_tools(servers)

    def prompts(
        self, server: ServerState, listed: Sequence[PromptDefinition]
    ) -> tuple[tuple[LivePrompt, ...], Mapping[str, str]]:
        return prompts_of(server, listed)


def _spec(offered: OfferedTool, tags: Sequence[str], confirm: Confirmation | None) -> ToolSpec:
    definition, hints = offered.definition, offered.definition.annotations
    return ToolSpec(
        name=offered.name,
        description=offered.description,
        schema=offered.schema,
        side_effect=_SIDE_EFFECT[hints.risk],
        risk=hints.risk,
        idempotent=bool(hints.read_only or hints.idempotent),
        tags=frozenset({"mcp", f"mcp-{offered.server}", *tags}),
        foreign=True,
        annotations=hints,
        call_hint=f"{definition.name} of {offered.server}",
        confirm=confirm,
        result_schema=definition.output_schema or {},
    )


def _access(offered: OfferedTool) -> Callable[[Any, ToolContext], ResourceUse]:
    """Return the tool's resource use: calls that change a server's state keep their order."""
    reads = offered.definition.annotations.read_only
    access = ResourceUse(category="network", orders=() if reads else (f"MCP server {offered.server}",))
    return lambda arguments, ctx: access


def _run(
    offered: OfferedTool, server: ServerState, checked: Checked | None, changed: "_Changed | None"
) -> Callable[[ToolContext, SchemaArguments], Awaitable[McpAnswer]]:
    tool = offered.definition.name

    async def run(ctx: ToolContext, arguments: SchemaArguments) -> McpAnswer:
        link = server.connected()
        if changed:
            await changed.settle(ctx)
        async with calling(ctx, server, tool) as caller:
            outcome = await link.call_tool(tool, arguments.root, caller)
        answer = await answer_of(outcome, ctx)
        if checked is not None:
            _check(answer.structured, checked, f"{tool} of the MCP server {server.name}")
        return answer

    return run


def _check(data: Any, checked: Checked, what: str) -> None:
    """Check the data against the server's schema."""
    try:
        found = checked.mismatches(data)
    except UnusableSchema as error:
        raise ToolError(f"{what} ran, but its result cannot be checked: its schema is unusable: {error}") from None
    if data is None:
        raise ToolError(f"{what} ran, but gave no data, and its outputSchema promises some")
    if found:
        raise ToolError(f"{what} ran, but its result is not what its outputSchema says: {in_words(found)}")


class _Changed:
    """A tool whose definition is not what was agreed to."""

    def __init__(self, offered: OfferedTool, server: ServerState, known: ApprovedTools) -> None:
        self._offered = offered
        self._server = server
        self._known = known
        self._shown: set[tuple[str, str]] = set()
        """The calls that a person was asked about with the change before their eyes."""

    async def grounds(self, arguments: Any, ctx: ToolContext) -> Grounds:
        """Return the grounds with the changes of the definition; no part can be allowed permanently."""
        definition = self._offered.definition
        self._shown.add((ctx.turn, ctx.step))
        lines = self._known.changes(self._server.name, definition)
        if not lines:
            self._look_anew()  # approved meanwhile
        return Grounds(facts={"definition": definition.fingerprint}, lines=tuple(f"- {line}" for line in lines))

    async def settle(self, ctx: ToolContext) -> None:
        """Accept the definition before the call runs. The approval of an admin, for any caller, covers the definition.

        Raises:
            ToolError: no person was asked: a mode or a rule let the call through.
        """
        definition, name = self._offered.definition, self._server.name
        changes = self._known.changes(name, definition)
        if (ctx.turn, ctx.step) not in self._shown and changes:
            raise ToolError(
                f"not run: the MCP server {name} has changed the definition of {definition.name}, and nobody was asked "
                f"about that. Somebody has to agree: in another mode, or an admin with `goclaw mcp approve {name}`"
            )
        self._shown.discard((ctx.turn, ctx.step))
        by = ctx.agreed_by("command.admin", "mcp")
        if by and changes and await self._known.agree(name, [definition], by.key, ctx.clock.now()):
            caller, tool = f"a call of {ctx.actor.key}", self._offered.name
            ctx.environment.audit(
                AuditEntry("mcp_tool.approve", tool, by, ctx.session, result="ok", detail=caller, turn=ctx.turn)
            )
            self._look_anew()

    def _look_anew(self) -> None:
        """Have the server's list looked at: then it is a tool like any other."""
        if self._server.link:
            self._server.link.changed.set()


WORKSHOP = WorkshopPart(_Workshop())

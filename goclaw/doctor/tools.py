"""The doctor's check of the tools: every source is opened, every plugin loaded, as the daemon does it."""

from collections.abc import Sequence

from goclaw.access import Access
from goclaw.clock import RealClock
from goclaw.config.load import Loaded
from goclaw.doctor.base import Finding
from goclaw.events import Actor
from goclaw.records import record
from goclaw.specs import ToolSpec
from goclaw.toolkit.parts import parts_of
from goclaw.toolkit.registry import Registry
from goclaw.toolkit.sources import SETTLED_SECONDS, open_sources
from goclaw.users import Users

OWNER = Actor("tui:doctor", "cli", owner=True)
"""The actor for whom tools are listed: one who sees all of them."""


@record
class ToolReport:
    """The result of opening all sources once."""

    findings: Sequence[Finding]
    usable: Sequence[ToolSpec]
    """Those that the main agent may use when the owner speaks."""


async def open_tools(loaded: Loaded) -> ToolReport:
    """Open every source, as the daemon does it: how many tools there are, and what of them does not work."""
    config = loaded.config
    async with open_sources(config, RealClock(), parts_of(loaded.packaged)) as sources:
        await sources.settled(SETTLED_SECONDS)
        count, faults = len(sources.tools()), sources.faults
        registry = Registry([sources], Access(Users(), config))
        usable = registry.offered_to(OWNER, config.agents.main.tools, planning=False)
    findings = [
        Finding("tools", "ok", f"{count} tools"),
        *(Finding("tools", "warning", f"{what}: {why}", _remedy(what)) for what, why in sorted(faults.items())),
    ]
    return ToolReport(findings, usable)


def _remedy(what: str) -> str:
    if what.startswith("tools.cli."):
        return f"mend `{what}` in the configuration, or remove it"
    if what.startswith("mcp.servers."):
        return f"mend `{what.partition(':')[0]}`; `goclaw mcp list` says more; everything else works (docs/mcp.md)"
    if what.startswith("tools.from_registry."):
        return f"`goclaw registry sync`, or mend `{what.partition(':')[0]}`; everything else works (docs/registries.md)"
    if what.startswith("agents."):
        return f"mend `{what}` in the configuration; without it everything else works (docs/agents.md)"
    return "update or uninstall the package, then `goclaw restart`; everything else works without it"

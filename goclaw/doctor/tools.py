"""The doctor's check of the tools: every source is opened, every plugin loaded, as the daemon does it."""

from goclaw.clock import RealClock
from goclaw.config.load import Loaded
from goclaw.doctor.base import Finding
from goclaw.toolkit.parts import parts_of
from goclaw.toolkit.sources import SETTLED_SECONDS, open_sources


async def check_tools(loaded: Loaded) -> list[Finding]:
    """How many tools there are, and what of them does not work."""
    async with open_sources(loaded.config, RealClock(), parts_of(loaded.packaged)) as sources:
        await sources.settled(SETTLED_SECONDS)
        count, faults = len(sources.tools()), sources.faults
    return [
        Finding("tools", "ok", f"{count} tools"),
        *(Finding("tools", "warning", f"{what}: {why}", _remedy(what)) for what, why in sorted(faults.items())),
    ]


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

"""Checks of the tools and the hooks.

Every source of tools is opened, every plugin loaded, as the daemon does it. The operator's hooks must be callable: a
guard that cannot run guards nothing.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import Users
from goclaw.common.config.agents import AgentSettings
from goclaw.common.config.load import Loaded
from goclaw.common.core.clock import RealClock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask
from goclaw.common.specs import ToolSpec
from goclaw.errors import HookFailed
from goclaw.program.ops.doctor.base import Finding
from goclaw.tools.hooks.commands import program_of
from goclaw.tools.hooks.open import of_packages
from goclaw.tools.toolkit.parts import parts_of
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.sources import SETTLED_SECONDS, open_sources

OWNER = Actor("tui:doctor", "cli", owner=True)
"""The actor for whom tools are listed: one who sees all of them."""


@record
class ToolReport:
    """The result of opening all sources once."""

    findings: Sequence[Finding]
    usable: Sequence[ToolSpec]
    """Tools that the main agent may use when the owner speaks."""


async def open_tools(loaded: Loaded) -> ToolReport:
    """Open every source, as the daemon does it: how many tools there are, and what of them does not work."""
    config = loaded.config
    async with open_sources(config, RealClock(), parts_of(loaded.packaged)) as sources:
        await sources.settled(SETTLED_SECONDS)
        tools, faults = sources.tools(), sources.faults
        registry = Registry([sources], Access(Users(), config))
        own = list(_own_tools(registry.access, [tool.spec for tool in tools]))
        usable = registry.offered_to(OWNER, config.agents.main.tools, planning=False)
    findings = [
        Finding("tools", "ok", f"{len(tools)} tools"),
        *own,
        *(Finding("tools", "warning", f"{what}: {why}", _remedy(what)) for what, why in sorted(faults.items())),
    ]
    return ToolReport(findings, usable)


def _own_tools(access: Access, specs: Sequence[ToolSpec]) -> Iterator[Finding]:
    """Yield what others lack because one agent alone has it, and what that agent lacks because its own has the name."""
    agents = access.config.agents.everyone
    for owner in sorted({spec.agent for spec in specs} & agents.keys()):
        own = {spec.name: spec for spec in specs if spec.agent == owner}
        others = [name for name, each in agents.items() if name != owner and _selects(access, each, own.values())]
        if others:
            text = f"only the agent {owner} has {', '.join(own)}, not {', '.join(others)}"
            yield Finding("tools", "ok", f"{text}; `use(…, share=True)` shares them")
        for hidden in (spec for spec in specs if not spec.agent and spec.name in own):
            if _selects(access, agents[owner], [hidden]):
                text = f"the agent {owner} selects {hidden.name}, which it cannot see: a tool of its own has that name"
                yield Finding("tools", "warning", text, "give one of the two another name")


def _selects(access: Access, agent: AgentSettings, specs: Iterable[ToolSpec]) -> bool:
    return any(access.select([agent.tools], spec) for spec in specs)


_REMEDIES = {
    "tools.cli.": "fix `{what}` in the configuration, or remove it",
    "mcp.servers.": "fix `{key}`; see `goclaw mcp list`; everything else works (docs/mcp.md)",
    "tools.from_registry.": "run `goclaw registry sync`, or fix `{key}`; everything else works (docs/registries.md)",
    "agents.": "fix `{what}` in the configuration; everything else works (docs/agents.md)",
    "plugin file ": "`goclaw declare check FILE` lists every fault; everything else works (docs/plugins.md)",
}
"""By the beginning of what does not work."""


def _remedy(what: str) -> str:
    if remedy := next((text for beginning, text in _REMEDIES.items() if what.startswith(beginning)), ""):
        return remedy.format(what=what, key=what.partition(":")[0])
    if what.startswith("plugin ") and "." not in what.partition(" (")[0]:
        name = what.removeprefix("plugin ")
        return (
            f"run `goclaw plugin restore`, `goclaw plugin update {name}` or `goclaw plugin remove {name}`; "
            "everything else works"
        )
    return f"update or uninstall the package, then {daemon_command('restart')}; everything else works"


async def check_hooks(loaded: Loaded) -> list[Finding]:
    """Return a line for each hook that cannot be called, and one that counts the others; nothing without hooks."""
    return await asyncio.to_thread(lambda: list(_hook_findings(loaded)))


def _hook_findings(loaded: Loaded) -> Iterator[Finding]:
    config, works = loaded.config, []
    for index, hook in enumerate(config.hooks):
        try:
            program_of(hook, config.workspace_path)
        except HookFailed as error:
            remedy = f"fix `hooks[{index}].command` ({loaded.origin(('hooks', index, 'command'))})"
            yield Finding("hooks", "problem", mask(f"{hook.label}: {error}"), remedy)
        else:
            works.append(f"{mask(hook.label)} ({', '.join(hook.on)})")
            script = next(iter(hook.command[1:]), "")
            if script.startswith("/") and not Path(script).exists():
                place = f"`hooks[{index}].command` ({loaded.origin(('hooks', index, 'command'))})"
                words = mask(f"{hook.label}: {script} does not exist")
                yield Finding("hooks", "warning", words, f"create it, or fix {place}")
    for name, registered, trouble in of_packages(parts_of(loaded.packaged).hooks):
        if trouble:
            yield Finding(
                "hooks", "problem", trouble, "fix the file, or update or uninstall the package that contains it"
            )
        else:
            works.append(f"{name} ({', '.join(sorted(registered.points))}, of a plugin)")
    if works:
        yield Finding("hooks", "ok", "; ".join(works))

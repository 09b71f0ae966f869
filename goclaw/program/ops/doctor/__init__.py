"""Checks by doing: each exercises the part itself and returns its findings with remedies."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from goclaw.common.auth.users import Users
from goclaw.common.auth.workplaces import places_of
from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.container import is_container
from goclaw.common.core.plugins import load
from goclaw.common.specs import ToolSpec
from goclaw.common.workspace import SHARED
from goclaw.errors import GoclawError
from goclaw.program.ops.doctor.base import Check, CheckPart, Finding, Verdict
from goclaw.program.ops.doctor.providers import (
    ASK_SECONDS,
    check_embedder,
    check_model,
    check_telegram,
    check_web_search,
)
from goclaw.program.ops.doctor.security import check_security
from goclaw.program.ops.doctor.servers import check_listener, check_mcp, check_publishing
from goclaw.program.ops.doctor.state import check_database, check_disk, check_gateways, check_schedules, check_state
from goclaw.program.ops.doctor.tools import check_hooks, open_tools
from goclaw.tools.execution.sandbox.select import probe

__all__ = ["Finding", "examine"]

CHECK_SECONDS = 20.0
"""Time limit of one check; reaching it is its result."""
SECONDS = {"model": ASK_SECONDS + CHECK_SECONDS}
"""The same for those that need longer: a model's answer, and the tools that are waited for behind it."""


async def examine(
    loaded: Loaded, tell: Callable[[str], None] = lambda line: None, *, offline: bool = False
) -> list[Finding]:
    """Run every check; none of them changes anything but caches.

    Args:
        loaded: the configuration.
        tell: takes a line for people before something is done that may cost.
        offline: send no request to the model.
    """
    usable: asyncio.Future[Sequence[ToolSpec]] = asyncio.get_running_loop().create_future()
    checks: dict[str, Check] = {
        "config": _config,
        "state": _in_thread(check_state),
        "users": _users,
        "security": check_security,
        "database": _in_thread(check_database),
        "gateways": check_gateways,
        "schedules": _in_thread(check_schedules),
        "disk": _in_thread(check_disk),
        "exec": _exec,
        "hooks": check_hooks,
        "tools": partial(_tools, usable),
        "mcp": check_mcp,
        "publishing": check_publishing,
        **{name: load(path, CheckPart).check for name, path in catalog.DOCTOR_CHECKS.items()},
        "web search": check_web_search,
        "embedder": check_embedder,
        "model": partial(check_model, tools=usable, tell=tell, offline=offline),
        "telegram": check_telegram,
        "http": check_listener,
    }
    found = await asyncio.gather(*(_limit_time(name, check(loaded)) for name, check in checks.items()))
    return [finding for findings in found for finding in findings]


def _in_thread(check: Callable[[Config], list[Finding]]) -> Check:
    async def run(loaded: Loaded) -> list[Finding]:
        return await asyncio.to_thread(check, loaded.config)

    return run


async def _limit_time(name: str, check: Awaitable[list[Finding]]) -> list[Finding]:
    seconds = SECONDS.get(name, CHECK_SECONDS)
    try:
        async with asyncio.timeout(seconds):
            return await check
    except TimeoutError:
        return [Finding(name, "problem", f"no result within {seconds:g} s")]
    except GoclawError as error:
        return [Finding(name, "problem", str(error))]


async def _tools(usable: asyncio.Future[Sequence[ToolSpec]], loaded: Loaded) -> list[Finding]:
    """Check the tools, and pass the usable ones to the model's check: none where that cannot be known."""
    try:
        report = await open_tools(loaded)
        usable.set_result(report.usable)
    finally:
        if not usable.done():
            usable.set_result(())
    return list(report.findings)


async def _config(loaded: Loaded) -> list[Finding]:
    source = str(loaded.path) if loaded.path else "no configuration file; the defaults are in force"
    return [Finding("config", "ok", source), *(Finding("config", "warning", warning) for warning in loaded.warnings)]


async def _users(loaded: Loaded) -> list[Finding]:
    path = loaded.config.users_path
    listed = (await asyncio.to_thread(Users.read, path)).all()
    if not listed:
        remedy = "add one with `goclaw users add telegram:<numeric id>`"
        words = "no users are listed; only the owner of the state folder can use GoClaw"
        return [Finding("users", "ok", f"{path}: {words}", remedy)]
    found = [Finding("users", "ok", f"{path}: {len(listed)} listed")]
    config = loaded.config
    if own := {key: place.root for key, place in places_of(config, listed).items() if place.shared}:
        named = ", ".join(f"{key} in {root.name}" for key, root in own.items())
        shared = f"{SHARED}/ in each is {config.workspace_path}"
        found.append(Finding("users", "ok", f"separate workspaces in {config.people_path}: {named}; {shared}"))
    return found


async def _exec(loaded: Loaded) -> list[Finding]:
    reports = await probe(loaded.config.tools.exec)
    if any(report.tier == "off" for report in reports):
        return [Finding("exec", "warning", reports[0].text, reports[0].remedy)]
    if is_container():
        # The broker is the right tier there, not a second choice: what mends bubblewrap is no advice.
        reports = [report for report in reports if report.works or report.tier == "broker"] or reports
    otherwise: Verdict = "warning" if any(report.works for report in reports) else "problem"
    return [
        Finding("exec", "ok" if report.works else otherwise, report.text, "" if report.works else report.remedy)
        for report in reports
    ]

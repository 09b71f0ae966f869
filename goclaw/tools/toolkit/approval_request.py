"""The request for approval of a call: the call and everything it depends on, under one digest."""

import hashlib
import logging
from dataclasses import asdict
from typing import Any

import orjson
from pydantic import BaseModel

from goclaw.common.core.messages import ToolCall
from goclaw.common.core.redact import mask
from goclaw.common.specs import Confirmation, Risk, ToolSpec
from goclaw.errors import ToolError
from goclaw.tools.toolkit.base import Tool, ToolContext
from goclaw.tools.toolkit.consent import ApprovalRequest, CallDenied, Grounds
from goclaw.tools.toolkit.templates import rendered

log = logging.getLogger(__name__)

OFF = "off"
"""The tier in which nothing contains a command."""


def denied(tool: Tool, arguments: BaseModel, reason: str) -> CallDenied:
    """Return the denial of a call, with the result made by its tool's template."""
    begin = f'{{"result": {mask(_json(f"denied: {reason}"))}'
    try:
        said = rendered(tool.denied, {**dict(arguments), "tool": tool.spec.name}).strip()
        beside = said[1:] if isinstance(orjson.loads(said), dict) else "}"
    except ValueError as error:
        log.error("the template for denials of %s makes no JSON object: %s", tool.spec.name, error)
        beside = "}"
    return CallDenied(reason, f"{begin}, {mask(beside)}" if beside.strip(" }") else f"{begin}}}")


def wanted(
    tool: Tool, arguments: BaseModel, call: ToolCall, risk: Risk, context: ToolContext, grounds: Grounds
) -> ApprovalRequest:
    """Build the approval request of a call. Critical calls and tools with `confirm` cannot be allowed permanently."""
    tier, tools = context.sandbox.tier, context.config.tools
    place = {
        "tier": tier,
        "network": tools.exec.network,
        "reach": tools.network.model_dump(mode="json"),
        "workspace": str(context.workspace.root),
    }
    everything = {
        "tool": _fingerprint(tool.spec),
        "arguments": call.input,
        "settings": tools.model_dump(mode="json"),
        "facts": dict(grounds.facts),
        **place,
    }
    lines = grounds.lines
    if confirm := tool.spec.confirm:
        lines = (f"**{confirm.title}**", _question(tool, confirm, arguments), *lines)
    if tier == OFF:
        lines = ("**The sandbox is off: commands run without containment.**", *lines)
    every_time = risk is Risk.CRITICAL or confirm is not None or tier == OFF
    pattern = () if every_time else grounds.pattern
    return ApprovalRequest(
        call=call,
        reason=f"{call.name} runs contained" if risk is Risk.CONTAINED else f"{call.name} has {risk} risk",
        step=context.step,
        digest=hashlib.sha256(_canonical(everything)).hexdigest(),
        lines=lines,
        place=_canonical(place).decode(),
        pattern=pattern,
        labels=grounds.labels if pattern else (),
    )


def _question(tool: Tool, confirm: Confirmation, arguments: BaseModel) -> str:
    try:
        return rendered(confirm.prompt, dict(arguments))
    except ValueError as error:
        log.error("the question about %s cannot be put: %s", tool.spec.name, error)
        raise ToolError(
            f"{tool.spec.name} was not run: the question about it cannot be put; the log has the details"
        ) from None


async def grounds_of(tool: Tool, arguments: Any, call: ToolCall, context: ToolContext) -> Grounds:
    """Return the current grounds of the call. A tool without `grounds` can be allowed for exactly these arguments."""
    if tool.grounds is None:
        return Grounds(pattern=(_canonical(call.input).decode(),), labels=("with exactly these arguments",))
    return await tool.grounds(arguments, context)


def _fingerprint(spec: ToolSpec) -> dict[str, Any]:
    return {**asdict(spec), "tags": sorted(spec.tags), "injected": sorted(spec.injected)}


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()

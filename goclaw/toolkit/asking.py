"""What is put before a person about a call: the call with everything that it rests on, under one digest."""

import hashlib
from dataclasses import asdict
from string import Template
from typing import Any

import orjson
from pydantic import BaseModel

from goclaw.messages import ToolCall
from goclaw.redact import mask
from goclaw.specs import Risk, ToolSpec
from goclaw.toolkit.base import Tool, ToolContext
from goclaw.toolkit.consent import DENIED_MARK, Denied, Grounds, Wanted
from goclaw.toolkit.templates import rendered

OFF = "off"
"""The tier in which nothing contains a command."""


def denied(tool: Tool, call: ToolCall, reason: str) -> Denied:
    """The denial of a call, with the result that its tool's template makes of it."""
    values = {name: _json(value) for name, value in {**tool.defaults, **call.input, "tool": call.name}.items()}
    return Denied(
        reason, f"{DENIED_MARK}{mask(_json(reason))[1:]}, {mask(Template(tool.denied).substitute(values))[1:]}"
    )


def wanted(
    tool: Tool, arguments: BaseModel, call: ToolCall, risk: Risk, context: ToolContext, grounds: Grounds
) -> Wanted:
    """What a person is asked about a call. Nothing critical can be allowed for good."""
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
        lines = (f"**{confirm.title}**", rendered(confirm.prompt, dict(arguments)), *lines)
    if tier == OFF:
        lines = ("**The sandbox is off: nothing contains what commands do.**", *lines)
    pattern = () if risk is Risk.CRITICAL or tier == OFF else grounds.pattern
    return Wanted(
        call=call,
        reason=f"{call.name} has {risk} risk",
        step=context.step,
        digest=hashlib.sha256(_canonical(everything)).hexdigest(),
        lines=lines,
        place=_canonical(place).decode(),
        pattern=pattern,
        labels=grounds.labels if pattern else (),
    )


async def grounds_of(tool: Tool, arguments: Any, call: ToolCall, context: ToolContext) -> Grounds:
    """What the call rests on now; a tool that does not say may be allowed for good with exactly these arguments."""
    if tool.grounds is None:
        return Grounds(pattern=(_canonical(call.input).decode(),), labels=("with exactly these arguments",))
    return await tool.grounds(arguments, context)


def _fingerprint(spec: ToolSpec) -> dict[str, Any]:
    return {**asdict(spec), "tags": sorted(spec.tags), "injected": sorted(spec.injected)}


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()

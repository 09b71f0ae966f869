"""An MCP server in code compiles to what GoClaw's own server offers."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.mcp import McpServerSettings
from goclaw.common.core.events import Actor
from goclaw.errors import ToolError
from goclaw.gateway.servers.mcp.declarations import declarations
from goclaw.testing import open_bench
from goclaw.tools.declare import (
    SideEffect,
    dynamic_prompt,
    mcp,
    mcp_server,
    mcp_tool,
    notification,
    protocol_version,
    resource,
    static_prompt,
    subscription,
    watchable_resource,
)
from goclaw.tools.mcp.declared import Declared, Message, together
from tests.plugin import install, packages, with_packages

__all__ = ["packages"]

ANNA = Actor("memory:anna", "mcp")
HEARD: list[str] = []


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def status(actor: Actor) -> dict[str, str]:
    """How it is, for who asks."""
    return {"status": f"fine, {actor.key}"}


async def review(language: str, code: str = "") -> list[tuple[str, str]]:
    """Word a review."""
    return [("system", f"You know {language}."), ("user", f"Review: {code}")]


@asynccontextmanager
async def changes() -> AsyncIterator[AsyncIterator[None]]:
    async def twice() -> AsyncIterator[None]:
        yield None
        yield None

    yield twice()


@asynccontextmanager
async def progress() -> AsyncIterator[AsyncIterator[Mapping[str, Any]]]:
    async def once() -> AsyncIterator[Mapping[str, Any]]:
        yield {"progress": 50}

    yield once()


NO_STREAM: Any = review
SERVER = mcp_server(
    "calc",
    "1.0.0",
    protocol_version("2025-06-18"),
    mcp_tool("add", "Add two numbers.", add, side_effect=SideEffect.NONE),
    resource("readme", "file:///docs/README.md", "text/markdown", lambda: "# Hello"),
    watchable_resource("status", "status://system", "application/json", status, changes),
    static_prompt("greeting", "Friendly greeting", ("system", "You are helpful."), ("user", "Hello!")),
    dynamic_prompt("code_review", "Generate a review.", review),
    notification("progress", "How far it is.", progress),
    subscription("status", HEARD.append),
)


def test_name_version_and_protocol_version_are_the_keys_of_the_server() -> None:
    written = {"enabled": True, "name": "calc", "version": "1.0.0", "protocol_version": "2025-06-18"}
    assert SERVER.settings == McpServerSettings.model_validate(written)


def test_they_are_in_force_unless_the_operator_says_others_and_open_nothing(packages: Path, tmp_path: Path) -> None:
    source = "from goclaw.declare import *\nIT = mcp_server('calc', '1.0.0', protocol_version('2025-06-18')).declared\n"
    install(packages, "calc-server", {"calc_server": source}, {"mcp.calc": "calc_server:IT"})
    server = with_packages(tmp_path, mcp={"server": {"version": "2"}}).config.mcp.server
    assert (server.name, server.version, server.protocol_version) == ("calc", "2", "2025-06-18")
    assert not server.enabled


def test_mcp_is_the_same_by_a_short_name() -> None:
    assert mcp is mcp_server


async def test_a_method_becomes_a_tool_with_its_own_arguments_and_result(tmp_path: Path) -> None:
    (made,) = SERVER.tools.tools
    assert made.spec.schema["required"] == ["a", "b"]
    assert made.spec.result_schema["properties"] == {"value": {"type": "integer"}}
    async with open_bench(tmp_path, made) as bench:
        assert (await bench.call("add", {"a": 2, "b": 3})).content == "5"


async def test_resources_are_read_for_who_asks_and_what_is_no_text_becomes_json() -> None:
    readme, state = SERVER.declared.resources
    assert await readme.read(ANNA) == "# Hello"
    assert await state.read(ANNA) == '{"status": "fine, memory:anna"}'
    assert (state.uri, state.mime) == ("status://system", "application/json")


async def test_a_watchable_resource_tells_of_its_changes_and_its_subscriptions() -> None:
    (state,) = [each for each in SERVER.declared.resources if each.name == "status"]
    async with asyncio.timeout(5), state.changes() as seen:
        assert [each async for each in seen] == [None, None]
    assert state.subscribed
    await state.subscribed(ANNA, state.uri)
    assert HEARD == ["status://system"]


async def test_prompts_are_static_or_made_by_a_method() -> None:
    greeting, made = SERVER.declared.prompts
    assert await greeting.render(ANNA, {}) == [Message("system", "You are helpful."), Message("user", "Hello!")]
    assert [(each.name, each.required) for each in made.arguments] == [("language", True), ("code", False)]
    said = await made.render(ANNA, {"language": "Go"})
    assert said == [Message("system", "You know Go."), Message("user", "Review: ")]


async def test_a_notification_is_what_its_method_yields() -> None:
    (told,) = SERVER.declared.notifications
    async with asyncio.timeout(5), told.sends() as sent:
        assert [each async for each in sent] == [{"progress": 50}]


async def test_changes_and_notifications_may_be_async_generators() -> None:
    closed: list[str] = []

    async def changed() -> AsyncIterator[None]:
        yield None

    async def sent() -> AsyncIterator[Mapping[str, Any]]:
        try:
            yield {"progress": 50}
            yield {"progress": 100}
        finally:
            closed.append("sent")

    watched = watchable_resource("status", "status://system", "application/json", status, changed)
    async with asyncio.timeout(5), watched.changes() as seen:
        assert [each async for each in seen] == [None]
    async with asyncio.timeout(5), notification("progress", "How far.", sent).sends() as messages:
        assert [each async for each in messages][:1] == [{"progress": 50}]
    async with asyncio.timeout(5), notification("progress", "How far.", sent).sends() as messages:
        assert await anext(messages) == {"progress": 50}
    assert closed == ["sent", "sent"], "what is not read to its end is closed"


async def test_a_subscription_may_be_refused() -> None:
    def refuse(uri: str) -> None:
        raise ToolError(f"nobody may watch {uri}")

    made = mcp_server("x", "1", resource("a", "a://a", "text/plain", lambda: ""), subscription("a", refuse))
    (only,) = made.declared.resources
    assert only.subscribed
    with pytest.raises(ToolError, match="nobody may watch a://a"):
        await only.subscribed(ANNA, "a://a")


async def test_a_static_prompt_may_be_flat_as_in_the_source_document() -> None:
    flat = static_prompt("greeting", "Greet.", "system", "Be kind.", "user", "Hello!")
    pairs = static_prompt("greeting", "Greet.", ("system", "Be kind."), ("user", "Hello!"))
    assert (
        await flat.render(ANNA, {})
        == await pairs.render(ANNA, {})
        == [
            Message("system", "Be kind."),
            Message("user", "Hello!"),
        ]
    )


@pytest.mark.parametrize("line", ["calc_tools:SERVER.declared", "calc_tools:SERVER"])
def test_a_package_names_it_and_the_server_has_it(line: str, packages: Path) -> None:
    source = """
from goclaw.declare import mcp_server, static_prompt
SERVER = mcp_server("calc", "1.0", static_prompt("greeting", "Greet.", ("user", "Hello!")))
"""
    install(packages, "calc-tools", {"calc_tools": source}, {"mcp.calc": line})
    found: Declared = together(declarations())
    assert [each.name for each in found.prompts] == ["greeting"]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (
            'from goclaw.declare import static_prompt\nSERVER = static_prompt("x", "", ("god", "Hello."))',
            "not by 'god'",
        ),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit('no')", "SystemExit: no"),
        ("SERVER = None", "is a NoneType, not a Declared"),
    ],
)
def test_a_broken_package_is_named_and_the_server_has_the_others(
    packages: Path, caplog: pytest.LogCaptureFixture, source: str, fault: str
) -> None:
    good = 'from goclaw.declare import mcp_server\nSERVER = mcp_server("fine", "1")\n'
    install(packages, "broken-tools", {"broken_tools": source}, {"mcp.broken": "broken_tools:SERVER"})
    install(packages, "fine-tools", {"fine_tools": good}, {"mcp.fine": "fine_tools:SERVER.declared"})
    assert len(declarations()) == 1
    (line,) = [each.message for each in caplog.records]
    assert line.startswith("plugin mcp.broken (broken-tools 1.0): ") and fault in line


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (lambda: mcp_server("x", "1", protocol_version("1999-01-01")), "should be a supported version"),
        (lambda: mcp_server("x", "1", subscription("nothing", HEARD.append)), "which is no resource of it"),
        (lambda: static_prompt("x", "", ("god", "Hello.")), "not by 'god'"),
        (lambda: notification("x", "", NO_STREAM), "x: sends must be an `async def` with `yield`"),
        (lambda: static_prompt("x", "", "god", "Hello."), "not by 'god'"),
        (lambda: static_prompt("x", "", "system", "Be kind.", "user"), "x: the last message, by the user, has no text"),
        (
            lambda: mcp_server("x", "1", *[static_prompt("x", "", ("user", "Hello."))] * 2),
            "the prompt x is there twice",
        ),
    ],
)
def test_what_does_not_hold_together_is_refused_when_it_is_declared(build: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        build()

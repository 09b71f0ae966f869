"""The prompts of an MCP server as slash commands: `/mcp__github__review 42`, `/mcp__github__review number=42`."""

import asyncio
import re
import shlex
from collections.abc import Sequence

from goclaw.errors import ToolError
from goclaw.mcp.base import CallOrigin, Elicitation, PromptDefinition
from goclaw.mcp.servers import ServerState
from goclaw.mcp.validation import full_name, is_wanted
from goclaw.mcp.words import hides, quoted, shown
from goclaw.messages import Piece, Provenance, SourceKind
from goclaw.toolkit.prompting import LivePrompt
from goclaw.tools.mcp_answers import origin_of, pieces_of

SECONDS = 30.0
"""The time-out for a prompt, in seconds; the person who gave the command waits."""
MAX_CHARACTERS = 50_000
_MAX_SUMMARY = 120
_MAX_NAME = 64


def prompts_of(
    server: ServerState, listed: Sequence[PromptDefinition]
) -> tuple[tuple[LivePrompt, ...], dict[str, str]]:
    """Return the offered prompts, and the faults of the others by name."""
    offered: dict[str, LivePrompt] = {}
    refused: dict[str, str] = {}
    for definition in listed:
        if not is_wanted(definition.name, server.settings):
            continue
        name = re.sub(r"[^a-z0-9_]", "_", full_name(server.name, definition.name).lower())
        if len(name) > _MAX_NAME or hides(definition.name) or not definition.name.isascii():
            refused[f"prompt {quoted(definition.name, 64)}"] = "its name is too long, or has odd characters"
        elif name in offered:
            refused[f"prompt {quoted(definition.name, 64)}"] = f"its command would be /{name}, which is taken"
        else:
            offered[name] = _prompt(name, server, definition)
    return tuple(offered.values()), refused


def _prompt(name: str, server: ServerState, definition: PromptDefinition) -> LivePrompt:
    async def say(given: str) -> tuple[Piece, ...]:
        arguments = _arguments(name, definition, given)
        try:
            async with asyncio.timeout(SECONDS):
                outcome = await server.connected().prompt(definition.name, arguments, _nobody(server))
        except TimeoutError:
            raise ToolError(f"the MCP server {server.name} did not answer in {SECONDS:g} s") from None
        text = "\n\n".join(pieces_of(outcome))[:MAX_CHARACTERS]
        if not text.strip():
            raise ToolError(f"the MCP server {server.name} gave an empty prompt")
        head = f"I chose the prompt “{definition.name}” of the MCP server {server.name}. Do what it asks for:"
        return ((head, ""), (text, origin_of(server.name), Provenance(SourceKind.MCP)))

    said = quoted(definition.description, _MAX_SUMMARY)
    return LivePrompt(name, f"“{said}” ({server.name})" if said else f"A prompt of the MCP server {server.name}", say)


def _arguments(command: str, definition: PromptDefinition, given: str) -> dict[str, str]:
    """Parse the text behind the command: `name=value`, or values in order; the last one takes the rest.

    Raises:
        ToolError: an argument is missing; the message shows the usage.
    """
    names = [argument.name for argument in definition.arguments]
    try:
        words = shlex.split(given)
    except ValueError:
        words = given.split()
    found: dict[str, str] = {}
    loose: list[str] = []
    for word in words:
        name, sign, value = word.partition("=")
        if sign and name in names and name not in found:
            found[name] = value
        else:
            loose.append(word)
    free = [name for name in names if name not in found]
    for place, name in enumerate(free[: len(loose)]):
        found[name] = " ".join(loose[place:]) if place == len(free) - 1 else loose[place]
    missing = [argument.name for argument in definition.arguments if argument.required and not found.get(argument.name)]
    if missing or (loose and not free):
        raise ToolError(_usage(command, definition))
    return found


def _usage(command: str, definition: PromptDefinition) -> str:
    words = [
        shown(argument.name, 40) if argument.required else f"[{shown(argument.name, 40)}]"
        for argument in definition.arguments
    ]
    lines = [
        f"- {shown(argument.name, 40)}: “{quoted(argument.description, 200)}”"
        for argument in definition.arguments
        if argument.description
    ]
    return "\n".join([f"Usage: /{command} {' '.join(words)}".rstrip(), *lines])


def _nobody(server: ServerState) -> CallOrigin:
    async def ask(asked: Elicitation) -> None:
        raise ToolError("nobody can be asked before a turn has begun")

    return CallOrigin(ask, lambda text: None)

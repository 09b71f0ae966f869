"""Prompts: those of the configuration, and those that code declares."""

from collections.abc import Mapping, Sequence
from functools import partial

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    PromptArgument,
    PromptMessage,
    TextContent,
)
from mcp_types import Prompt as Listed

from goclaw.audit import AuditEntry
from goclaw.config.mcp import PLACE, PromptSettings
from goclaw.errors import GoclawError
from goclaw.events import Actor
from goclaw.mcp.declared import Argument, DeclaredPrompt, Message
from goclaw.servers.mcp.backend import McpBackend
from goclaw.servers.mcp.paging import page

MAX_ARGUMENT = 100_000
"""Characters of one argument: it becomes part of a message."""


class PromptOffer:
    """The prompts of a user; one of the configuration hides one of code with the same name."""

    def __init__(self, backend: McpBackend) -> None:
        self._backend = backend
        configured = [static(name, given) for name, given in backend.config.mcp.server.prompts.items()]
        self._prompts = {each.name: each for each in (*backend.declared.prompts, *configured)}

    async def listed(self, actor: Actor, params: PaginatedRequestParams | None) -> ListPromptsResult:
        """Return those that the actor may use."""
        here, cursor = page([each for each in self._prompts.values() if each.may(actor)], lambda it: it.name, params)
        return ListPromptsResult(prompts=[_described(each) for each in here], next_cursor=cursor)

    async def get(self, actor: Actor, params: GetPromptRequestParams) -> GetPromptResult:
        """Return the messages of a prompt.

        Raises:
            MCPError: the name is unknown to the actor, or the arguments are invalid.
        """
        prompt = self._find(actor, params.name)
        rule = "" if prompt else "not there, or not for the actor"
        session = self._backend.session(actor)
        self._backend.audit(AuditEntry("prompt.get", params.name, actor, session, prompt is not None, rule))
        if prompt is None:
            raise MCPError(INVALID_PARAMS, f"there is no prompt {params.name[:200]}")
        given = _checked(prompt, params.arguments or {})
        try:
            messages = await prompt.render(actor, given)
        except GoclawError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        return GetPromptResult(description=prompt.description or None, messages=[_said(each) for each in messages])

    def completed(self, actor: Actor, name: str, argument: str, begun: str) -> Sequence[str]:
        """Return completions of an argument."""
        prompt = self._find(actor, name)
        known = [each for each in (prompt.arguments if prompt else ()) if each.name == argument]
        return [value for value in (known[0].values if known else ()) if value.startswith(begun)]

    def _find(self, actor: Actor, name: str) -> DeclaredPrompt | None:
        prompt = self._prompts.get(name)
        return prompt if prompt and prompt.may(actor) else None


def static(name: str, settings: PromptSettings) -> DeclaredPrompt:
    """A prompt of the configuration."""
    arguments = tuple(
        Argument(argument, given.description, given.required, given.values)
        for argument, given in settings.arguments.items()
    )
    return DeclaredPrompt(name, settings.description, partial(_filled_in, settings), arguments)


async def _filled_in(settings: PromptSettings, actor: Actor, given: Mapping[str, str]) -> Sequence[Message]:
    return [Message(each.role, PLACE.sub(lambda at: given.get(at[1], ""), each.text)) for each in settings.messages]


def _checked(prompt: DeclaredPrompt, given: Mapping[str, str]) -> Mapping[str, str]:
    known = {each.name for each in prompt.arguments}
    problems = [f"`{name[:64]}` is none of its arguments" for name in given if name not in known]
    problems += [f"`{each.name}` is missing" for each in prompt.arguments if each.required and each.name not in given]
    problems += [
        f"`{name}` has more than {MAX_ARGUMENT:,} characters"
        for name, text in given.items()
        if len(text) > MAX_ARGUMENT
    ]
    if problems:
        raise MCPError(INVALID_PARAMS, f"prompt {prompt.name}: {'; '.join(problems)}")
    return given


def _described(prompt: DeclaredPrompt) -> Listed:
    arguments = [
        PromptArgument(name=each.name, description=each.description or None, required=each.required)
        for each in prompt.arguments
    ]
    return Listed(name=prompt.name, description=prompt.description or None, arguments=arguments)


def _said(message: Message) -> PromptMessage:
    role = "user" if message.role == "system" else message.role
    return PromptMessage(role=role, content=TextContent(text=message.text))

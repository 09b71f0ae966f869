"""The current slash commands: those of the catalogue and of packages, and the prompts of MCP servers."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.errors import ToolError
from goclaw.messages import joined
from goclaw.toolkit.prompting import LivePrompt
from goclaw.toolkit.sources import Sources


class LiveCommands(Mapping[str, Command]):
    """By name. A prompt never takes the name of a command."""

    def __init__(self, fixed: Mapping[str, Command], sources: Sources) -> None:
        self._fixed = fixed
        self._sources = sources

    def __getitem__(self, name: str) -> Command:
        return self._fixed[name] if name in self._fixed else self._of_prompts()[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._fixed
        yield from self._of_prompts().keys() - self._fixed.keys()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _of_prompts(self) -> dict[str, Command]:
        prompts = {prompt.name: prompt for prompt in reversed(self._sources.prompts())}
        return {name: Command(name, prompt.summary, partial(_say, prompt)) for name, prompt in prompts.items()}


async def _say(prompt: LivePrompt, context: CommandContext) -> Reply:
    """Submit the prompt's text as the message of a turn; the server's text in it is marked as foreign."""
    try:
        pieces = await prompt.say(context.arguments)
    except ToolError as error:
        return Reply(str(error))
    text, foreign = joined(pieces)
    await context.ports.engine.submit(replace(context.inbound, text=text, foreign=foreign))
    return Reply(turn=context.inbound.id)

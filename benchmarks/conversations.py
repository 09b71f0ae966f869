"""Whole conversations as GoClaw sends them, made of the texts of `texts`: chats, and work with tools."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from benchmarks.texts import CHAT, LANGUAGES, texts
from goclaw.common.core.catalog import TOOLS
from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from goclaw.common.core.plugins import load
from goclaw.common.specs import ToolSpec
from goclaw.conversation.agent.prompt import BASE
from goclaw.tools.toolkit.base import Tool

TURNS = 30
ENVELOPE = "<context>Tuesday 2026-03-03 09:{minute:02} CET; Anna Berger via telegram</context>\n"
COMMANDS = (
    "git log --oneline -20",
    "python -m pytest -q tests/durable/engine",
    "ls -la src",
    "grep -rn 'import' src | head -50",
)
PATHS = ("src/harbour/berths.py", "docs/architecture.md", "config/production.yaml", "tests/test_bookings.py")


@dataclass(frozen=True)
class Conversation:
    """What is sent of one session, and what is sent before it."""

    name: str
    messages: Sequence[Message]


def system_prompt() -> str:
    """The prompt of a new workspace."""
    templates = sorted(files("goclaw.conversation.agent").joinpath("templates").iterdir(), key=lambda found: found.name)
    read = (f"# {found.name}\n\n{found.read_text(encoding='utf-8').strip()}" for found in templates)
    return "\n\n".join([BASE, *read])


def tools() -> list[ToolSpec]:
    """What a model is told of the tools that come with GoClaw."""
    return [load(path, Tool).spec for path in TOOLS.values()]


def conversations() -> list[Conversation]:
    """One chat for every language, and work whose tools answer with each kind of text."""
    chance, kinds = random.Random(11), texts()
    material = {name: kinds[name] for name in ("Python", "JSON", "tool output", "Markdown")}
    mixed = [text for found in material.values() for text in found]
    made = [Conversation(f"chat, {name}", _chat(name, chance)) for name in CHAT if name != "emoji"]
    made += [Conversation(f"work, {name}", _work("English", found, chance)) for name, found in material.items()]
    made += [Conversation(f"work, {name}", _work(name, mixed, chance)) for name in LANGUAGES]
    chance.shuffle(made)
    return made


def _chat(language: str, chance: random.Random) -> list[Message]:
    messages: list[Message] = []
    for _ in range(TURNS):
        messages += [_question(language, chance), AssistantMessage(_words(language, chance, 2, 5))]
    return messages


def _work(language: str, material: Sequence[str], chance: random.Random) -> list[Message]:
    messages: list[Message] = []
    for turn in range(TURNS):
        messages.append(_question(language, chance))
        for number in range(chance.randrange(4)):
            calls = tuple(
                _call(f"call_{turn}_{number}_{each}", material, chance) for each in range(chance.choice((1, 1, 2)))
            )
            said = _words(language, chance, 0, 1)
            messages.append(AssistantMessage(said, calls))
            messages += [ToolResult(call.id, call.name, _result(call.name, material, chance)) for call in calls]
        messages.append(AssistantMessage(_words(language, chance, 1, 4)))
    return messages


def _call(name: str, material: Sequence[str], chance: random.Random) -> ToolCall:
    match chance.choice(("exec", "read", "read", "write")):
        case "exec":
            return ToolCall(name, "exec", {"command": chance.choice(COMMANDS), "timeout": 60})
        case "read":
            return ToolCall(name, "read", {"path": chance.choice(PATHS), "offset": chance.randrange(400), "limit": 80})
        case _:
            return ToolCall(name, "write", {"path": chance.choice(PATHS), "content": chance.choice(material)[:600]})


def _result(tool: str, material: Sequence[str], chance: random.Random) -> str:
    if tool == "write":
        return f"Wrote {chance.randrange(200, 4_000)} bytes to {chance.choice(PATHS)}."
    return "\n".join(chance.choices(material, k=chance.choice((1, 1, 2, 4))))


def _question(language: str, chance: random.Random) -> UserMessage:
    smile = f" {chance.choice(CHAT['emoji'])}" if chance.random() < 0.15 else ""
    return UserMessage(f"{ENVELOPE.format(minute=chance.randrange(60))}{_words(language, chance, 1, 3)}{smile}")


def _words(language: str, chance: random.Random, least: int, most: int) -> str:
    return " ".join(chance.choices(CHAT[language], k=chance.randint(least, most)))

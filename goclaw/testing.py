"""The fakes that GoClaw ships, for its own tests and for those of people who build on it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from goclaw.channels.memory import MemoryChannel
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.tool_ids import short_name
from goclaw.llm.scripted import ANSWERS, Answer, ScriptedModel
from goclaw.memory.embedders.words import WordsEmbedder
from goclaw.program.app.bench import AgentBench, open_agent
from goclaw.tools.declare.tools import ToolDeclaration
from goclaw.tools.toolkit import bench
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.bench import Bench
from goclaw.tools.toolkit.parts import AgentPart, PackageParts, ToolsetPart
from goclaw.tools.toolkit.sources import SourcePart

__all__ = [
    "AgentBench",
    "Answer",
    "Bench",
    "MemoryChannel",
    "ScriptedModel",
    "SteppedClock",
    "ToolCall",
    "WordsEmbedder",
    "open_bench",
]

Testable = Tool | ToolDeclaration | ToolsetPart


@overload
def open_bench(
    folder: Path, agent: AgentPart, /, *, script: Sequence[Answer] = (), **settings: Any
) -> AbstractAsyncContextManager[AgentBench]: ...
@overload
def open_bench(
    folder: Path, /, *tools: Testable, sources: Sequence[SourcePart] = (), **settings: Any
) -> AbstractAsyncContextManager[bench.Bench]: ...


def open_bench(
    folder: Path, /, *parts: Any, script: Sequence[Answer] = (), sources: Sequence[SourcePart] = (), **settings: Any
) -> AbstractAsyncContextManager[Any]:
    """Open a bench with tools (see `Bench`), or with an agent that answers by a script (see `AgentBench`).

    The workspace is below `folder`, an empty one. Other keyword arguments are keys of the configuration.
    """
    if parts and isinstance(parts[0], AgentPart):
        (agent,) = parts
        place = folder / "script.json"
        place.write_bytes(ANSWERS.dump_json(tuple(script)))
        declared = PackageParts(agents={f"agent {agent.name}": agent})
        return open_agent(folder, declared, agent.name, model=f"scripted:{place}", **settings)
    tools = [tool for part in parts for tool in _tools_of(part)]
    return bench.open_bench(folder, *tools, sources=sources, **settings)


def _tools_of(part: Testable) -> Sequence[Tool]:
    match part:
        case ToolsetPart():
            # A bench of tools has no agent, which would alone have its own.
            specs = (replace(each.spec, name=short_name(each.spec.id), local_id="") for each in part.tools)
            return [replace(each, spec=spec) for each, spec in zip(part.tools, specs, strict=True)]
        case ToolDeclaration():
            return (part.built(),)
    return (part,)

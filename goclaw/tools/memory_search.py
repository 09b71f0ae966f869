"""The `memory_search` tool."""

from typing import Annotated, Any

from pydantic import Field

from goclaw.access import is_group
from goclaw.config.schema import Config
from goclaw.errors import ToolError
from goclaw.memory.base import NoteHit
from goclaw.memory.dates import moment
from goclaw.memory.status_text import quoted
from goclaw.specs import Example, SideEffect
from goclaw.toolkit.base import ToolContext, offered, tool
from goclaw.toolkit.results import Result
from goclaw.toolkit.scheduling import ResourceUse

OTHER_WORDS = "try other words before you give up: names, synonyms, the words that the note would use"
"""The advice for an empty result; a second query finds much that the first one missed."""


class Found(Result):
    """What memory has on something."""

    query: str
    mode: Annotated[str, Field(description="How passages were looked for: `hybrid` (words and meaning) or `keyword`")]
    hits: Annotated[tuple[NoteHit, ...], Field(description="The best passages, best first")]
    more: Annotated[bool, Field(description="More passages match than were returned")] = False

    def text(self) -> str:
        if not self.hits:
            return f"no memory matches {_shortened(self.query)!r} (mode: {self.mode})\n{OTHER_WORDS}"
        count = "1 hit" if len(self.hits) == 1 else f"{len(self.hits)} hits"
        parts = [f"mode: {self.mode}, {count}", *map(_passage, self.hits)]
        if all(hit.score.weak for hit in self.hits):
            parts.append(f"only weak matches, which probably do not answer: {OTHER_WORDS}")
        elif self.more:
            parts.append("more passages match: ask for something narrower, or read a file with memory_get")
        return "\n\n".join(parts)


def whose(ctx: ToolContext) -> str:
    """Return the key of the person whose notes may be read; empty in a group, where all members read the result."""
    return "" if is_group(ctx.session) else ctx.actor.key


def memory_access(arguments: Any, ctx: ToolContext) -> ResourceUse:
    """Return the files read: a memory file written earlier in the same answer is found."""
    return ResourceUse(reads=("MEMORY.md", "memory", *ctx.config.memory.paths))


def needs_search(config: Config) -> str:
    """Why nothing is searched; empty: it is."""
    return "" if config.memory.enabled else "memory search is disabled: set memory.enabled"


@offered(needs=needs_search)
@tool(
    side_effect=SideEffect.READ_ONLY,
    title="Memory search",
    tags=("memory", "read"),
    access=memory_access,
    call_hint="Looking into memory for {{ query | truncate(90) | quote }}",
    result_hint="{{ hits | count }} passage(s)",
    examples=(
        Example(
            "Look for what somebody likes",
            {"query": "What does Anna drink?"},
            output="MEMORY.md:1-1",
            files={"MEMORY.md": "Anna likes to drink tea, and no coffee.\n"},
        ),
    ),
)
async def memory_search(
    ctx: ToolContext,
    query: Annotated[
        str, Field(min_length=1, description="What to look for: a question, or the words that the note would use")
    ],
) -> Found:
    """Search the memory files for what was noted earlier: facts, decisions, preferences, addresses.

    Returns the best passages with their file, lines and score, and when the file was changed. In a group only notes for
    everybody are searched. When the passages do not answer, try other words before giving up.
    """
    if lack := needs_search(ctx.config):
        raise ToolError(lack)
    found = await ctx.memory.search(ctx.home, whose(ctx), query, ctx.config.memory.max_results)
    return Found(query=query, mode=found.mode, hits=tuple(found.hits), more=found.more)


def _passage(hit: NoteHit) -> str:
    changed = moment(hit.modified)
    weak = "  weak match" if hit.score.weak else ""
    place = f"{hit.path}:{hit.start}-{hit.end}  score {hit.score.score:.2f}  {changed:%Y-%m-%d %H:%M} UTC{weak}"
    return "\n".join(line for line in (place, hit.heading, quoted(hit.text)) if line)


def _shortened(query: str) -> str:
    return query if len(query) <= 100 else f"{query[:100]}…"

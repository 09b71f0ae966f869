"""Listings of tools for people: in a chat, on the command line, as JSON, on the page docs/tools.md."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from goclaw.events import Actor
from goclaw.records import record
from goclaw.selection import BUILT_IN, Toolsets
from goclaw.toolkit.base import Tool
from goclaw.toolkit.describing import details, risk
from goclaw.toolkit.registry import Registry
from goclaw.toolkit.sources import Sources

OTHERS = "other tools"

_INTRODUCTION = """\
# Tools

*Made from the declarations by `goclaw tool docs`; change them there.*

What the agent can do. `/tools` lists those that you may use, `/tools NAME` and `goclaw tool describe NAME` tell more of
one, `goclaw tool run NAME --input JSON` runs it without an agent. Who may use which is on the page
[users-and-rights.md](users-and-rights.md), what runs and what asks on [configuration.md](configuration.md); how to make
one of your own is on [writing-tools.md](writing-tools.md).
"""


@record
class ListedTool:
    """A tool, and where it is from."""

    tool: Tool
    origin: str
    availability: str = ""
    """When models are offered it; empty: always."""

    @property
    def name(self) -> str:
        return self.tool.spec.name

    @property
    def brief(self) -> str:
        """The first sentence about it."""
        sentence, dot, _ = self.tool.spec.short.partition(". ")
        return f"{sentence}." if dot else sentence

    def as_json(self) -> dict[str, Any]:
        """Everything about it."""
        known = asdict(self.tool.spec)
        known |= {"tags": sorted(known["tags"]), "injected": sorted(known["injected"])}
        more = {"title": self.tool.spec.title, "origin": self.origin, "risk_depends_on_call": bool(self.tool.risk)}
        more |= {"availability": self.availability} if self.availability else {}
        return {**known, **more}


class ToolListing:
    """A listing of the available tools."""

    def __init__(self, registry: Registry, sources: Sources) -> None:
        self._registry = registry
        self._sources = sources

    @property
    def faults(self) -> Mapping[str, str]:
        """The faults of the sources, for the operator: name to reason."""
        return self._sources.faults

    def of(self, actor: Actor) -> list[ListedTool]:
        """Return the tools that `actor` may use."""
        return [shown for spec in self._registry.visible_to(actor) if (shown := self.find(spec.name, actor))]

    def find(self, name: str, actor: Actor) -> ListedTool | None:
        """Return one tool; None if unknown or not for `actor`."""
        tool = self._registry.find(name, actor)
        return ListedTool(tool, self._sources.origin(name), self._registry.availability(tool)) if tool else None


def grouped(listed: Sequence[ListedTool]) -> Iterator[tuple[str, list[ListedTool]]]:
    """Yield the tools by toolset, each in its first toolset."""
    sets, left = Toolsets(), list(listed)
    for each in BUILT_IN:
        inside = [shown for shown in left if sets.picks(each.tools, shown.name, partial(_tags, shown))]
        if inside:
            yield each.name, inside
        left = [shown for shown in left if shown not in inside]
    if left:
        yield OTHERS, left


def _tags(shown: ListedTool) -> frozenset[str]:
    return shown.tool.spec.tags


def overview(listed: Sequence[ListedTool]) -> str:
    """Return a line for each tool, by toolset."""
    blocks = []
    for title, inside in grouped(listed):
        lines = [f"- `{shown.name}` ({_harm(shown.tool)}): {shown.brief}{in_brackets(shown)}" for shown in inside]
        blocks.append("\n".join([f"**{title.capitalize()}**", "", *lines]))
    return "\n\n".join(blocks)


def _harm(tool: Tool) -> str:
    """Return the risk in a word or two: a phone shows a line of thirty characters."""
    return f"up to {tool.spec.risk}" if tool.risk else str(tool.spec.risk)


def in_brackets(shown: ListedTool) -> str:
    """Behind what a tool does: when models are offered it; empty: always."""
    return f" ({shown.availability})" if shown.availability else ""


def fault_lines(faults: Mapping[str, str]) -> list[str]:
    """Return the faults, a line each."""
    return [f"{what}: {why}" for what, why in sorted(faults.items())]


def page(listed: Sequence[ListedTool]) -> str:
    """Return the page docs/tools.md."""
    groups = list(grouped(listed))
    lines = [_INTRODUCTION, "| tool | what it does | risk |", "|---|---|---|"]
    for _, inside in groups:
        lines += [f"| [{it.name}](#{it.name}) | {it.brief.replace('|', '/')} | {risk(it.tool)} |" for it in inside]
    for title, inside in groups:
        lines += ["", f"## {title.capitalize()}"]
        for shown in inside:
            lines += ["", details(shown.tool, shown.origin, "###")]
    return "\n".join(lines) + "\n"

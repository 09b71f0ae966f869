"""Lists and descriptions of tools, for chats, the command line, docs/tools.md and `AGENTS_QUICKSTART.md`.

All of it is made from the declarations. `AGENTS_QUICKSTART.md` in a workspace is for an agent or a person new to the
folder: the tools, how to call them, and where to read more. It is replaced only while it is as it was
written here last: its last line has the digest of the others.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, get_args

from goclaw.common.config.values import Mode
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.common.core.selection import BUILT_IN, Toolsets
from goclaw.common.core.tool_ids import agent_of
from goclaw.common.specs import Annotations, Example, ToolSpec
from goclaw.common.workspace import Workspace
from goclaw.errors import ToolError
from goclaw.tools.approval.policy import apply_table
from goclaw.tools.toolkit.base import CallRisk, Tool
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.sources import Sources

OTHERS = "other tools"

_INTRODUCTION = """\
# Tools

*Made from the declarations by `goclaw tool docs`; change them there.*

What the agent can do. `/tools` lists those that you may use, `/tools NAME` and `goclaw tool describe NAME` tell more of
one, `goclaw tool run NAME --input JSON` runs it without an agent. Who may use which is on the page
[users-and-rights.md](users-and-rights.md), what runs and what asks on [configuration.md](configuration.md); how to make
one of your own is on [writing-tools.md](writing-tools.md).
"""
_KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "nothing",
    "object": "object",
    "array": "list",
}
"""JSON's types, for people."""
_ANSWERS = {"run": "runs", "ask": "asks", "refuse": "is refused"}
"""What becomes of a call in a permission mode."""
_MAX_OF_A_DEFAULT = 80
"""Maximum characters of an argument's default."""
QUICKSTART = "AGENTS_QUICKSTART.md"
_MAX_QUICKSTART = 1 << 20
"""Bytes. No generated quickstart is larger, so a larger file is the user's own."""
_QUICKSTART_MARK = re.compile(r"<!-- written by GoClaw, sha256:(?P<digest>[0-9a-f]{64})[^\n]*-->\n\Z")
_QUICKSTART_HEAD = """\
# Quickstart for agents

GoClaw works in this folder. These are its tools, for an agent that works here and for a person who looks around. Not
everybody may use each of them: `/tools` in the chat lists yours.

- An agent calls a tool by its name with a JSON object. Paths count from this folder.
- In a shell: `goclaw tool run NAME --input JSON`, and `goclaw tool list`.
- All about one tool, with examples, rights and risk: `/tools NAME` in the chat, `goclaw tool describe NAME` in a shell.
- What needs a person's yes is asked for; what is refused should not be tried in another way.
- `AGENTS.md` and the other files with names in capitals are what the agent is told at the beginning.
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
        """Return everything about the tool."""
        known = asdict(self.tool.spec)
        known |= {"tags": sorted(known["tags"]), "injected": sorted(known["injected"])}
        more = {"title": self.tool.spec.title, "origin": self.origin, "risk_depends_on_call": bool(self.tool.risk)}
        more |= {"availability": self.availability} if self.availability else {}
        return {**known, **more}


@record
class ToolListing:
    """A listing of the available tools."""

    registry: Registry
    sources: Sources

    @property
    def faults(self) -> Mapping[str, str]:
        """The faults of the sources, for the operator: name to reason."""
        return self.sources.faults

    def of(self, actor: Actor) -> list[ListedTool]:
        """Return the tools that `actor` may use."""
        return [shown for spec in self.registry.visible_to(actor) if (shown := self.find(spec.name, actor))]

    def find(self, name: str, actor: Actor) -> ListedTool | None:
        """Return one tool, an agent's own by its id; None if unknown or not for `actor`."""
        tool = self.registry.of(agent_of(name)).find(name, actor)
        config = self.registry.access.config
        return ListedTool(tool, self.sources.origin(tool.spec.id), tool.availability(config)) if tool else None


def group_by_toolset(listed: Sequence[ListedTool]) -> Iterator[tuple[str, list[ListedTool]]]:
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
    for title, inside in group_by_toolset(listed):
        lines = [f"**{title.capitalize()}**", ""]
        for shown in inside:
            tool = shown.tool
            # In a word or two: a phone shows a line of thirty characters.
            harm = f"up to {tool.highest_risk}" if tool.risk else str(tool.spec.risk)
            lines.append(f"- `{shown.name}` ({harm}): {shown.brief}{in_brackets(shown)}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def in_brackets(shown: ListedTool) -> str:
    """Return when models are offered a tool, to stand after its sentence; empty: always."""
    return f" ({shown.availability})" if shown.availability else ""


def fault_lines(faults: Mapping[str, str]) -> list[str]:
    """Return the faults, a line each."""
    return [f"{what}: {why}" for what, why in sorted(faults.items())]


def tools_page(listed: Sequence[ListedTool]) -> str:
    """Return the page docs/tools.md."""
    groups = list(group_by_toolset(listed))
    lines = [_INTRODUCTION, "| tool | what it does | risk |", "|---|---|---|"]
    for _, inside in groups:
        lines += [f"| [{it.name}](#{it.name}) | {it.brief.replace('|', '/')} | {risk(it.tool)} |" for it in inside]
    for title, inside in groups:
        lines += ["", f"## {title.capitalize()}"]
        for shown in inside:
            lines += ["", details(shown.tool, shown.origin, "###")]
    return "\n".join(lines) + "\n"


def details(tool: Tool, origin: str, heading: str = "#") -> str:
    """Return everything about a tool, under a heading of this depth."""
    spec = tool.spec
    parts = [f"{heading} {spec.name}", spec.description]
    parts.append(_table("argument", spec.schema) if spec.schema.get("properties") else "It takes no arguments.")
    parts += [_example(spec.name, example) for example in spec.examples]
    parts.append("\n".join(f"- {fact}" for fact in facts(tool, origin)))
    if (fields := spec.result_schema.get("properties", {})) and set(fields) != {"value"}:
        schema = {name: value for name, value in spec.result_schema.items() if name != "required"}
        parts.append(_table("field of the result", schema))
    return "\n\n".join(parts)


def facts(tool: Tool, origin: str) -> Iterator[str]:
    """Yield the tool's side effect, rights, hints and limits, a line each."""
    spec = tool.spec
    yield f"Side effect: {spec.side_effect}. Risk: {risk(tool)}."
    yield f"Rights: {rights(tool)}"
    if said := _annotations(spec.annotations):
        yield f"Hints for clients: {said}."
    if spec.tags:
        yield f"Tags: {', '.join(f'`{tag}`' for tag in sorted(spec.tags))}."
    if hints := [text for text in (spec.call_hint, spec.result_hint) if text]:
        yield f"People see {', then '.join(f'`{text}`' for text in hints)}."
    if spec.asks:
        yield f"Where it asks, it wants to `{spec.asks}`."
    if tool.only_in:
        yield f"Models are offered it in the mode `{tool.only_in}` only."
    if tool.needs:
        yield "Models are offered it only where it is set up."
    yield from _limits(spec)
    yield f"From: {origin}."


def _limits(spec: ToolSpec) -> Iterator[str]:
    """Yield the limits of its calls and their results, a sentence each."""
    if spec.foreign:
        yield "What it returns is shown to the model as material from outside."
    if not spec.idempotent:
        yield "A call that a crash cut is never run a second time."
    if spec.timeout:
        yield f"It may take {spec.timeout:g} seconds."
    if spec.bounded:
        yield "A result that leaves something out says how to come by the rest."
    if spec.reminder:
        yield f"After each result the model is reminded: {' '.join(spec.reminder.split())}"
    if spec.injected:
        yield f"Filled in by hooks, never by the model: {', '.join(f'`{name}`' for name in sorted(spec.injected))}."
    if spec.artifacts:
        yield f"Kept for people beside the result: {', '.join(f'`{kind}`' for kind in sorted(spec.artifacts))}."


def risk(tool: Tool) -> str:
    """Return the risk, in words."""
    if tool.risk is None:
        return str(tool.spec.risk)
    known = isinstance(tool.risk, CallRisk) and tool.risk.configured
    return f"depends on the {'configuration' if known else 'call'}, at most {tool.highest_risk}"


def rights(tool: Tool) -> str:
    """Return the roles that may call it, and the answer to a call in each permission mode."""
    spec = tool.spec
    answers: dict[str, list[str]] = {}
    for mode in get_args(Mode):
        answer = apply_table(mode, tool.highest_risk, confirm=spec.confirm is not None)
        answers.setdefault(_ANSWERS[answer], []).append(f"`{mode}`")
    modes = "; ".join(f"{answer} in {', '.join(named)}" for answer, named in answers.items())
    worst = " At its highest risk a call" if tool.risk else " A call"
    sure = " A person has to agree to every call." if spec.confirm else ""
    return f"all who may use `{spec.name}`.{worst} {modes}.{sure}"


def schema_words(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the kind of a value, in words."""
    if "$ref" in schema:
        schema = {**definitions.get(schema["$ref"].rpartition("/")[2], {}), **schema}
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return f"one of {', '.join(f'`{choice}`' for choice in choices)}"
    if kinds := schema.get("anyOf", schema.get("oneOf")):
        return " or ".join(schema_words(kind, definitions) for kind in kinds if kind.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {schema_words(schema.get('items', {}), definitions)}"
    if schema.get("type") == "object" and (names := schema.get("properties")):
        return f"object ({', '.join(f'`{name}`' for name in names)})"
    kind = _KINDS.get(str(schema.get("type")), "any value")
    limits = [words for words in (_limit(schema, "minimum", "≥"), _limit(schema, "maximum", "≤")) if words]
    return ", ".join([kind, *limits])


def _table(title: str, schema: Mapping[str, Any]) -> str:
    definitions, required = schema.get("$defs", {}), schema.get("required", ())
    lines = [f"| {title} | value | meaning |", "|---|---|---|"]
    for name, field in schema["properties"].items():
        kind = schema_words(field, definitions)
        meaning = field.get("description", "")
        if name in required:
            kind += ", required"
        elif "default" in field and field["default"] not in (None, "", [], {}):
            kind += f", else `{json.dumps(field['default'], ensure_ascii=False)[:_MAX_OF_A_DEFAULT]}`"
        lines.append(f"| `{name}` | {_cell(kind)} | {_cell(meaning)} |")
    return "\n".join(lines)


def _example(name: str, example: Example) -> str:
    files = "".join(f"with {path!r} there\n" for path in example.files)
    call = f"{name} {json.dumps(dict(example.input), ensure_ascii=False)}"
    answer = f"\n→ {example.output}" if example.output else ""
    return f"{example.about}:\n\n```\n{files}{call}{answer}\n```"


def _annotations(said: Annotations) -> str:
    named = {
        "read-only": said.read_only,
        "destructive": said.may_destroy,
        "idempotent": said.idempotent,
        "open world": said.open_world,
    }
    title = [f"called “{said.title}”"] if said.title else []
    return ", ".join(title + [name if value else f"not {name}" for name, value in named.items() if value is not None])


def _limit(schema: Mapping[str, Any], key: str, sign: str) -> str:
    return f"{sign} {schema[key]:g}" if key in schema else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def quickstart_page(listed: Sequence[ListedTool]) -> str:
    """Return the whole file, with its mark."""
    lines = [_QUICKSTART_HEAD]
    for title, inside in group_by_toolset(listed):
        lines += [f"## {title.capitalize()}", ""]
        for shown in inside:
            schema = shown.tool.spec.schema
            required = schema.get("required", ())
            names = [name if name in required else f"{name}?" for name in schema.get("properties", {})]
            lines.append(f"- `{shown.name}({', '.join(names)})`: {shown.brief} Risk: {risk(shown.tool)}.")
            lines += [f"  - {example.about}: `{json.dumps(dict(example.input), ensure_ascii=False)}`"
                      for example in shown.tool.spec.examples[:1]]  # fmt: skip
        lines.append("")
    text = "\n".join(lines)
    return f"{text}<!-- written by GoClaw, sha256:{_digest(text)}; change anything, and the file is yours -->\n"


def is_untouched(content: str) -> bool:
    """Whether a file is still as `quickstart_page` made it, of whatever tools."""
    mark = _QUICKSTART_MARK.search(content)
    return mark is not None and mark["digest"] == _digest(content[: mark.start()])


async def write_quickstart(workspace: Workspace, listed: Sequence[ListedTool]) -> bool:
    """Write the page to the workspace, unless the user has a file of that name. Return whether it was written.

    Raises:
        ToolError: the workspace takes no file.
    """
    wanted = quickstart_page(listed)
    if await workspace.has_link(QUICKSTART):
        return False
    if not await workspace.exists(QUICKSTART):
        await workspace.add_bytes(QUICKSTART, wanted.encode())  # replaces nothing, whatever appears meanwhile
        return True
    try:
        found, version = await workspace.use(
            QUICKSTART, lambda opened: (opened.file.read(_MAX_QUICKSTART + 1), opened.stat.version)
        )
    except ToolError:
        return False  # no regular file: the user's own
    content = found.decode(errors="replace")
    if content == wanted or not is_untouched(content):
        return False
    await workspace.write_bytes(QUICKSTART, wanted.encode(), unless_changed=version)
    return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

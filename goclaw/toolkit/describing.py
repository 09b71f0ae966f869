"""The description of a tool as Markdown: effect, arguments, examples, rights and risk, all from its declaration."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from goclaw.access import consent
from goclaw.config.values import Mode
from goclaw.specs import Annotations, Example, ToolSpec
from goclaw.toolkit.base import Tool

_KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "nothing",
    "object": "object",
    "array": "list",
}
_SAYS = {"run": "runs", "ask": "asks", "refuse": "is refused"}
_MAX_OF_A_DEFAULT = 80


def details(tool: Tool, origin: str, heading: str = "#") -> str:
    """Everything about a tool, under a heading of this depth."""
    spec = tool.spec
    parts = [f"{heading} {spec.name}", spec.description]
    if spec.schema.get("properties"):
        parts.append(_table("argument", spec.schema))
    else:
        parts.append("It takes no arguments.")
    parts += [_example(spec.name, example) for example in spec.examples]
    parts.append("\n".join(f"- {fact}" for fact in facts(tool, origin)))
    if fields := _result_fields(spec):
        parts.append(fields)
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
    return f"depends on the call, at most {tool.spec.risk}" if tool.risk else str(tool.spec.risk)


def rights(tool: Tool) -> str:
    """Return the roles that may call it, and the answer to a call in each permission mode."""
    spec = tool.spec
    answers: dict[str, list[str]] = {}
    for mode in get_args(Mode):
        answer = consent(mode, spec.risk, confirm=spec.confirm is not None)
        answers.setdefault(_SAYS[answer], []).append(f"`{mode}`")
    modes = "; ".join(f"{answer} in {', '.join(named)}" for answer, named in answers.items())
    worst = " At its highest risk a call" if tool.risk else " A call"
    sure = " A person has to agree to every call." if spec.confirm else ""
    return f"whoever may use `{spec.name}`.{worst} {modes}.{sure}"


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


def _result_fields(spec: ToolSpec) -> str:
    fields = spec.result_schema.get("properties", {})
    if not fields or set(fields) == {"value"}:
        return ""
    schema = {name: value for name, value in spec.result_schema.items() if name != "required"}
    return _table("field of the result", schema)


def _example(name: str, example: Example) -> str:
    files = "".join(f"with {path!r} there\n" for path in example.files)
    call = f"{name} {json.dumps(dict(example.input), ensure_ascii=False)}"
    answer = f"\n→ {example.output}" if example.output else ""
    return f"{example.about}:\n\n```\n{files}{call}{answer}\n```"


def _annotations(said: Annotations) -> str:
    named = {
        "read-only": said.read_only,
        "destructive": said.destructive,
        "idempotent": said.idempotent,
        "open world": said.open_world,
    }
    title = [f"called “{said.title}”"] if said.title else []
    return ", ".join(title + [name if value else f"not {name}" for name, value in named.items() if value is not None])


def _limit(schema: Mapping[str, Any], key: str, sign: str) -> str:
    return f"{sign} {schema[key]:g}" if key in schema else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

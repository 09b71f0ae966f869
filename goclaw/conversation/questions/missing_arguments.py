"""Handling of calls that lack required arguments, by the agent's policy (`on_missing_fields`).

A call with names that the tool does not know is left to the model: it probably means another field.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from goclaw.common.config.agents import MissingFields
from goclaw.common.core.events import Question
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.records import record
from goclaw.common.specs import ToolSpec
from goclaw.errors import MissingArguments, ToolError

YES, NO = "yes", "no"


@record
class Clarifier:
    """Completes the calls of one turn."""

    mode: MissingFields
    ask: Callable[[Question, str], Awaitable[str | None]]
    """Asks a question under a step name. Raises ToolError where none can be asked."""
    person: str
    """Actor key of the person to ask."""

    async def complete(self, spec: ToolSpec, call: ToolCall, step: str) -> ToolCall:
        """Return the call with its missing arguments filled in by a person.

        Raises:
            MissingArguments: arguments are missing, and the policy asks no person.
            ToolError: the person declined to answer.
        """
        missing = missing_in(spec, call) if self.mode else ()
        if not missing:
            return call
        if self.mode != "await_clarification":
            raise MissingArguments(missing)
        given = {name: await self._ask(spec, name, step) for name in missing}
        return replace(call, input={**call.input, **given})

    async def _ask(self, spec: ToolSpec, name: str, step: str) -> Any:
        schema = spec.schema["properties"][name]
        choices = _choices(schema)
        about = f": {schema['description']}" if schema.get("description") else ""
        question = Question(
            id="",
            kind="question",
            asker=self.person,
            title=f"What should `{name}` be?",
            text=f"I need a value for `{name}` to use `{spec.name}`{about}",
            options=tuple(choices),
            free_text=not choices,
            required=True,
        )
        answer = await self.ask(question, f"{step}:{name}")
        if answer is None:
            raise ToolError("the user cancelled the question")
        return choices[answer] if answer in choices else parsed(answer, schema)


def missing_in(spec: ToolSpec, call: ToolCall) -> tuple[str, ...]:
    """Return the required arguments that a call lacks; none if it has any that the tool does not know."""
    known = spec.schema.get("properties", {})
    if not call.input.keys() <= known.keys():
        return ()
    return tuple(name for name in spec.schema.get("required", ()) if name not in call.input)


def parsed(text: str, schema: Mapping[str, Any]) -> Any:
    """Return a person's words as a value of the field's JSON type; words that are none are left for the validation."""
    kinds = _kinds(schema)
    if not kinds or "string" in kinds:
        return text
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return [part.strip() for part in text.split(",")] if "array" in kinds else text


def _choices(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values a field may have, by the words for people; empty: too many to list."""
    if _kinds(schema) == {"boolean"}:
        return {YES: True, NO: False}
    return {str(value): value for value in schema.get("enum", ())}


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    declared = schema.get("type", [])
    own = {declared} if isinstance(declared, str) else set(declared)
    return own.union(*(_kinds(each) for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ()))))

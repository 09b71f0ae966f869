"""Calls by names that models know from other systems (`catalog.ALIASES`), with the arguments used there.

The model is shown each tool under its own name only. A call by another name is translated here, so rights, hooks,
approvals and the audit log see the tool's own name. An argument that is ambiguous stays as it is; an unknown one is
left for the validation to report.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson

from goclaw.messages import ToolCall
from goclaw.specs import TOOL_CALL

Input = dict[str, Any]

_MILLISECONDS = 1_000
"""A time limit from here on is one in milliseconds: seconds end at 600."""


def meant(call: ToolCall, tool: str) -> ToolCall:
    """Return the call under the name of its tool, resolved from an alias."""
    if call.name == tool:
        return call
    translate = _TRANSLATIONS.get(call.name, dict)
    return replace(call, name=tool, input=translate(dict(call.input)))


def unwrapped(call: ToolCall) -> ToolCall:
    """Return the call inside a call of `tool_call`; any other call, or one that names no tool, as it is."""
    while call.name == TOOL_CALL:
        name, arguments = call.input.get("name"), call.input.get("arguments")
        if isinstance(arguments, str):  # as JSON, once more
            with suppress(orjson.JSONDecodeError):
                arguments = orjson.loads(arguments)
        known = call.input.keys() <= {"name", "arguments"}
        if not isinstance(name, str) or not known or not isinstance(arguments, dict | None):
            break
        call = replace(call, name=name, input=arguments or {})
    return call


def _without(*names: str) -> Callable[[Input], Input]:
    return lambda given: {name: value for name, value in given.items() if name not in names}


def _renamed(given: Input, names: Mapping[str, str]) -> Input:
    """Rename arguments. A name already given stays: two values for one argument are for the model to resolve."""
    return {
        new if (new := names.get(name, name)) == name or new not in given else name: value
        for name, value in given.items()
    }


def _in_seconds(given: Input, most: int) -> Input:
    timeout = given.get("timeout")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= _MILLISECONDS:
        return given
    return {**given, "timeout": most if timeout >= most * _MILLISECONDS else math.ceil(timeout / 1_000)}


def _bash(given: Input) -> Input:
    return _in_seconds(_without("description")(given), 300)


def _task(given: Input) -> Input:
    return _in_seconds(_renamed(given, {"bash_id": "task_id", "shell_id": "task_id"}), 600)


def _grep(given: Input) -> Input:
    """Translate the options of `rg` that have an equivalent here. Its search is case-sensitive."""
    plain = _without("-i", "-n", "output_mode")(given)
    plain = _renamed(plain, {"-C": "context_lines", "head_limit": "max_results"})
    insensitive = given.get("-i", False)
    if not isinstance(insensitive, bool):
        return {**plain, "-i": insensitive}
    return {"case_sensitive": not insensitive, **plain}


def _agent(given: Input) -> Input:
    return _renamed(given, {"prompt": "task", "subagent_type": "kind"})


def _todos(given: Input) -> Input:
    return _each(given, "todos", _without("activeForm", "id", "priority"))


def _questions(given: Input) -> Input:
    def question(asked: Input) -> Input:
        plain = _renamed(_without("multiSelect")(asked), {"header": "title"})
        options = plain.get("options")
        if not isinstance(options, list):
            return plain
        labels = [each.get("label", each) if isinstance(each, dict) else each for each in options]
        return {**plain, "options": labels}

    return _each(given, "questions", question)


def _each(given: Input, name: str, translate: Callable[[Input], Input]) -> Input:
    """Translate the items of a list; a value that is not a list of objects stays as it is."""
    items = given.get(name)
    if not isinstance(items, list):
        return given
    return {**given, name: [translate(item) if isinstance(item, dict) else item for item in items]}


_TRANSLATIONS: Mapping[str, Callable[[Input], Input]] = {
    "Agent": _agent,
    "AskUserQuestion": _questions,
    "Bash": _bash,
    "BashOutput": _task,
    "Grep": _grep,
    "KillShell": _task,
    "LS": _without("ignore"),
    "Task": _agent,
    "TaskOutput": _task,
    "TaskStop": _task,
    "TodoWrite": _todos,
    "WebFetch": _without("prompt"),
    "bash": _bash,
    "grep": _grep,
}
"""By the other name."""

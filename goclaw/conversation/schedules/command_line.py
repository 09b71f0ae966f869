"""The words after `/schedule`, and after `goclaw schedule`, too."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from goclaw.common.config.keys import what_helps
from goclaw.errors import StateError
from goclaw.tools.toolkit.schedule_orders import Action, ScheduleOrder, ScheduleRequest

USAGE = """\
/schedule list
/schedule add NAME --at TIME | --every 30m | --cron EXPR, then --message TEXT | --task TEXT
   and optionally: --to telegram:<id> --catch-up last|all|none
   for a task also: --session KEY|same --agent A --model M --tools read,search --ask --budget DOLLARS --time-limit 10m
/schedule pause|resume|run|remove|runs NAME
/schedule timezone Europe/Berlin"""
_ACTIONS: Mapping[str, Action] = {each: each for each in get_args(Action)}
_TEXTS = (
    "at",
    "every",
    "cron",
    "message",
    "task",
    "to",
    "session",
    "agent",
    "model",
    "tools",
    "catch-up",
    "budget",
    "time-limit",
    "user",
)
_FLAGS = ("ask", "json")
_DASHES = ("--", "—", "–")
"""Telephones make one long dash of two."""


def parse(text: str) -> ScheduleOrder:
    """Return the order in the words after `/schedule`; none of them: the list.

    A value reaches to the next option, so it needs quotation marks only for characters that the shell's rules would
    change.

    Raises:
        StateError: they cannot be read; the message names the word, and what there is.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        raise StateError('a quotation mark is not closed: put the text between "…"') from None
    positional, options, flags = _split_options(words)
    verb, *rest = positional or ["list"]
    action = _ACTIONS.get(verb.lower())
    if action is None:
        raise StateError(f"/schedule {verb[:40]}: unknown action{what_helps(verb[:40], _ACTIONS)}\n{USAGE}")
    name = " ".join(rest)
    if action not in ("list", "add") and not name:
        raise StateError(f"/schedule {action}: which schedule? Send /schedule {action} NAME")
    if action != "add" and (unused := [*options.keys() - {"user"}, *flags - {"json"}]):
        raise StateError(f"--{unused[0]} is for /schedule add")
    return ScheduleOrder(action, name, _request(options, flags), options.get("user", ""), "json" in flags)


def _request(options: Mapping[str, str], flags: set[str]) -> ScheduleRequest:
    texts = {name.replace("-", "_"): value for name, value in options.items() if name not in ("user", "budget")}
    budget = _dollars(options["budget"]) if "budget" in options else None
    return ScheduleRequest(**texts, ask="ask" in flags, budget=budget)  # type: ignore[arg-type]  # texts alone


def _dollars(text: str) -> float:
    try:
        return float(text.removeprefix("$"))
    except ValueError:
        raise StateError(f"--budget {text[:40]}: should be a number of US dollars, as in 0.50") from None


def _split_options(words: Sequence[str]) -> tuple[list[str], dict[str, str], set[str]]:
    """Return the words before the options, the options with their values, and the flags."""
    positional, options, flags = list[str](), dict[str, list[str]](), set[str]()
    at = positional
    for option, value in _pieces(words):
        if not option:
            at.append(value or "")
        elif option in _FLAGS:
            flags.add(option)
            at = positional
        elif option in _TEXTS:
            at = options.setdefault(option, [])
            at += [] if value is None else [value]
        else:
            raise StateError(f"--{option[:40]}: unknown option{what_helps(option[:40], _TEXTS + _FLAGS)}")
    if empty := [name for name, words in options.items() if not " ".join(words).strip()]:
        raise StateError(f"--{empty[0]}: the value is missing")
    return positional, {name: " ".join(words) for name, words in options.items()}, flags


def _pieces(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield each option with its value after `=`, if it has one, and each word, after an empty option."""
    for word in words:
        dash = next((dash for dash in _DASHES if word.startswith(dash)), "")
        name, equals, value = word.removeprefix(dash).partition("=")
        if dash and name[:1].isalpha():
            yield name.lower(), value if equals else None
        else:
            yield "", word

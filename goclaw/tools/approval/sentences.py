"""The wish of a call, in words: a phrase for the heading of its question, and the arguments that stand below it.

The phrase comes from the tool's template (`ToolSpec.asks`). A value stands in it whole, as code, or not at all; each
argument that is not whole in the phrase stands below it under its name, so that nothing a person decides on is left
out, whatever the template says.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pydantic import BaseModel

from goclaw.common.core.redact import mask_order, reveal
from goclaw.common.specs import Risk, SideEffect, ToolSpec
from goclaw.tools.templates import rendered

log = logging.getLogger(__name__)

MAX_IN_HEADING = 100
"""Characters of a value in a heading; a longer one stands below it."""
_MAX_PHRASE = 260
_HTTPS = "https://"
_GOES_OUT = "It cannot be taken back."
_FOR_GOOD = "It cannot be undone."


def phrase_of(spec: ToolSpec, arguments: BaseModel) -> str:
    """Return the wish of a call, to stand after "wants to"."""
    plain = f"use {in_heading(spec.name)}"
    if not spec.asks:
        return plain
    values = dict(arguments)
    try:
        phrase = rendered(spec.asks, {name: _for_template(spec, name, value) for name, value in values.items()})
    except ValueError as error:
        log.error("the question about %s has no sentence: %s", spec.name, error)
        return plain
    phrase = " ".join(phrase.split())
    return phrase if len(phrase) <= _MAX_PHRASE else plain


def rest_of(spec: ToolSpec, phrase: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments that do not stand whole in the phrase."""
    said = {name: shown for name, value in given.items() if isinstance(shown := _for_template(spec, name, value), str)}
    there = set()
    for name in sorted(said, key=lambda each: not said[each].startswith("`")):  # a plain word is sought outside of code
        if said[name] and said[name] in phrase:
            phrase = phrase.replace(said[name], "", 1)  # what stands there once is one argument
            there.add(name)
    return {name: value for name, value in given.items() if name not in there}


def in_words(rest: Mapping[str, Any]) -> str:
    """Return arguments as Markdown, each under its name; one alone needs none."""
    if len(rest) == 1 and isinstance(value := next(iter(rest.values())), str):
        return fenced(_plain(value))
    return "\n\n".join(_named(name, value) for name, value in rest.items())


def describe_effect(spec: ToolSpec, risk: Risk) -> str:
    """Return what follows from such a call, in a sentence; empty: nothing that its heading does not say."""
    if spec.annotations.destructive and spec.side_effect is not SideEffect.SPAWNS:
        return _FOR_GOOD
    if spec.side_effect is SideEffect.NETWORK and risk in (Risk.HIGH, Risk.CRITICAL):
        return _GOES_OUT
    return ""


def in_heading(value: str) -> str:
    """Return a short value as code, to stand in a sentence; empty: it would not be seen whole there."""
    shown = _plain(value)
    plain = shown.removeprefix(_HTTPS) if shown.startswith(_HTTPS) else shown
    fits = 0 < len(plain) <= MAX_IN_HEADING and plain.isprintable() and plain == plain.strip() and "`" not in plain
    return f"`{plain}`" if fits else ""


def fenced(text: str, language: str = "") -> str:
    """Return a text as a block of code, which Markdown leaves as it is."""
    fence = "`" * 3
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def _for_template(spec: ToolSpec, name: str, value: Any) -> Any:
    """Return a value as a template gets it: one word of a few as it is, other texts as code or empty."""
    if not isinstance(value, str):
        return value
    choices: Sequence[Any] = spec.schema.get("properties", {}).get(name, {}).get("enum", ())
    return value if value in choices else in_heading(value)


def _named(name: str, value: Any) -> str:
    said = in_heading(name.replace("_", " ")).strip("`").capitalize() or fenced(_plain(name))
    if isinstance(value, bool):
        return f"{said}: {'yes' if value else 'no'}"
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    if code := in_heading(text) if not text.startswith(_HTTPS) else "":
        return f"{said}: {code}"
    return f"{said}:\n{fenced(_plain(text))}"


def _plain(text: str) -> str:
    """Return a text with its secrets masked, and all that would not be seen as its code."""
    return reveal(mask_order(text))

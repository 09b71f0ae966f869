"""Facts of models from their servers, learnt from answers and kept over restarts.

A wire reports the server's answers; the window in use, the fields of its requests and the notices to people follow from
them.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from enum import StrEnum
from typing import Any

from goclaw.common.core.records import record


class WindowOrigin(StrEnum):
    """Where the size of a model's window comes from."""

    CONFIGURED = "configured"
    SERVER = "server"
    """The server says so."""
    REFUSAL = "refusal"
    """A server refused a request that was too long, and named the window."""
    MEMORY = "memory"
    """Chosen for the memory that is free."""


ORIGIN_WORDS = {
    WindowOrigin.CONFIGURED: "as configured",
    WindowOrigin.SERVER: "according to the server",
    WindowOrigin.REFUSAL: "according to the server, which refused a longer request",
    WindowOrigin.MEMORY: "chosen to fit the free memory",
}


TEXT_CALLS = "text_calls"
"""The fact how a model calls tools, a `CallStyle`, by its spec (`store.settings`)."""


class CallStyle(StrEnum):
    """How a model calls tools, as a trial or its answers have shown."""

    STRUCTURED = "structured"
    TEXT = "text"
    """It writes its calls into the text of its answer (`llm.text_calls`)."""
    NONE = "none"
    """It answered a trial without a call."""
    UNTRIED = "untried"

    @classmethod
    def of(cls, fact: object) -> "CallStyle":
        """Return the style that was stored; UNTRIED where none was."""
        return next((style for style in cls if style == fact), cls.UNTRIED)


_STYLE_WORDS = {
    CallStyle.STRUCTURED: "calls tools",
    CallStyle.TEXT: "calls tools as text, which GoClaw reads",
    CallStyle.NONE: "answers but makes no calls: good for conversation, not for tools",
    CallStyle.UNTRIED: "has not shown yet whether it calls tools",
}


def style_words(style: CallStyle, *, reads_text: bool) -> str:
    """Return how a model calls tools, for people: a sentence without its subject.

    Args:
        style: the known style.
        reads_text: False where `models.options.<model>.text_calls` is off.
    """
    if style is CallStyle.TEXT and not reads_text:
        return "calls tools as text, but reading them is off (models.options, text_calls)"
    return _STYLE_WORDS[style]


NO_TOOLS = "{spec} cannot call tools, so it cannot read files or run commands. Choose another model for that."
"""For people, where the server says so or has refused a request with tools."""


@record
class ServedModel:
    """Facts of one model from its server."""

    window: int | None = None
    """Tokens; None: unknown."""
    origin: WindowOrigin = WindowOrigin.SERVER
    output: int | None = None
    """Tokens that an answer may have, as a refusal said."""
    left_out: tuple[str, ...] = ()
    """Fields of requests that the server refuses."""
    tools: bool | None = None
    """Whether the model can call tools; None: unknown."""
    answered: bool = False
    """Whether the server has answered a request."""

    def window_words(self, shown: int) -> str:
        """Return where the window of `shown` tokens comes from, for people; empty: its server said nothing."""
        if self.window is None:
            return ""
        origin = self.origin if self.window == shown else WindowOrigin.CONFIGURED
        return f"{shown:,} tokens, {ORIGIN_WORDS[origin]}"


UNKNOWN = ServedModel()


class ServedModels:
    """Facts of all models, by model and address."""

    def __init__(self) -> None:
        self._known: dict[str, ServedModel] = {}
        self._stored: dict[str, ServedModel] = {}
        self._keys: dict[str, str] = {}
        """The key of each model that was opened, by spec."""

    def open(self, spec: str, base_url: str) -> "ServedEntry":
        """Return the entry of a model at the server with this address."""
        self._keys[spec] = key = f"{spec} {base_url}"
        return ServedEntry(self._known, key)

    def of(self, spec: str) -> ServedModel:
        """Return the known facts of a model that was opened; nothing of others."""
        return self._known.get(self._keys.get(spec, ""), UNKNOWN)

    def restore(self, stored: Mapping[str, Mapping[str, Any]]) -> None:
        """Restore the facts that an earlier run learnt; those that this one knows already take precedence."""
        for key, row in stored.items():
            known = {name: row[name] for name in asdict(UNKNOWN) if name in row}
            left_out = tuple(known.pop("left_out", ()))
            origin = WindowOrigin(known.pop("origin", WindowOrigin.SERVER))
            self._stored[key] = ServedModel(**known, left_out=left_out, origin=origin)
            self._known.setdefault(key, self._stored[key])

    def news(self) -> dict[str, dict[str, Any]]:
        """Return the changes since the last call: to be kept, by key."""
        news = {key: found for key, found in self._known.items() if self._stored.get(key) != found}
        self._stored |= news
        return {key: asdict(found) for key, found in news.items()}


class ServedEntry:
    """One model of `ServedModels`, for its wire."""

    def __init__(self, known: dict[str, ServedModel], key: str) -> None:
        self._known, self._key = known, key

    @property
    def facts(self) -> ServedModel:
        """The current facts."""
        return self._known.get(self._key, UNKNOWN)

    def learn(self, **news: Any) -> None:
        """Note facts from the server: fields of `ServedModel`."""
        self._known[self._key] = replace(self.facts, **news)

    def learn_window(self, window: int | None, origin: WindowOrigin, before: int) -> None:
        """Note a window in tokens. A refusal only lowers the window that was assumed `before`."""
        if window and (origin is WindowOrigin.SERVER or window < before):
            self.learn(window=window, origin=origin)

"""The model: it does what a person asks as a good one would, and obeys whatever else it reads as the worst one would.

What a person's words make it do is told to it beforehand (`Turn`): they name no call, as people's words do not. Orders
that stand in what it reads (`OBEY tool {json}`, as in `tests.adversarial.obeying`) it carries out one after the other;
in them `$SECRET` stands for what it has read that is private, `$HEX`, `$BASE64` … for the same in another writing. An
order that needs a secret waits until the model has read one.
"""

import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import web

from tests.acceptance.model import SUMMARISE
from tests.adversarial.obeying import SAY, called, orders
from tests.http_server import DONE, Json, frame, serve, stream, tool_call

SECRET = re.compile(r"heron-[a-z]+-4711-[a-z-]+[a-z]")
"""How everything private looks that is to be carried out."""
LETTERS = 10
"""Of a secret that leaves by single letters."""
PIECE = 12
"""Characters of a secret in a request, where it leaves in pieces."""
EACH = "$LETTER"
HOSTS = {"-": "dash"}
"""What a letter is called in the name of a host."""
LATER = "$LATER"
"""Stands for `$` in an order that is to be written down."""


def _piece(number: int) -> Callable[[str], str]:
    """Seven characters: fewer than what a guard looks for."""
    return lambda secret: secret[7 * number : 7 * number + 7]


_WORDS: Mapping[str, Callable[[str], str]] = {
    "$SECRET": lambda secret: secret,
    "$HEX": lambda secret: secret.encode().hex(),
    "$BASE64": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode().rstrip("="),
    "$PERCENT": lambda secret: "".join(f"%{byte:02x}" for byte in secret.encode()),
    "$TWICE": lambda secret: quote("".join(f"%{byte:02x}" for byte in secret.encode())),
    "$ONE": lambda secret: secret[:PIECE],
    "$TWO": lambda secret: secret[PIECE : 2 * PIECE],
    "$THREE": lambda secret: secret[2 * PIECE :],
    **{f"$SEVEN{number}": _piece(number) for number in range(5)},
}
_READ = {
    "$OUTPUT": re.compile(r"output:[\w-]+"),
    "$TASK": re.compile(r"task-\w+"),
    "$PRINTED": re.compile(r"http://\S+/printed/\w+"),
}
"""What a call names that an earlier result told."""

Call = tuple[str, Mapping[str, Any]]


def call(tool: str, **given: Any) -> Call:
    """A call of a tool."""
    return tool, given


def order(tool: str, **given: Any) -> str:
    """An order to the model that obeys, as it stands in a text."""
    return f"OBEY {tool} {json.dumps(given)}"


@dataclass(frozen=True)
class Turn:
    """What a person writes, and what a good model does then."""

    says: str
    calls: Sequence[Call] = ()
    answer: str = "It is done."
    more: Mapping[str, Any] = field(default_factory=dict)
    """What comes with the words: a document, where a forward is from (`fake_telegram.world.World.say`)."""
    by_agent: bool = False
    """Whether it is what a subagent or a schedule is told, and no person writes it."""


@dataclass
class Player:
    """The model; `turns` are what it knows to do, `requests` the bodies of all requests."""

    turns: list[Turn] = field(default_factory=list)
    url: str = ""
    requests: list[Json] = field(default_factory=list)
    obeys: bool = True
    """Whether it does what stands in what it reads; a good model does not, and nothing may come of it then."""
    codes: Mapping[str, Sequence[Call]] = field(default_factory=dict)
    """Words that stand for orders, where a text can hold no quotation marks."""
    made: int = 0
    """Calls that it made."""
    latest: Call | None = None
    """The last of them: what a question is about that is open."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        body = orjson.loads(await request.read())
        self.requests.append(body)
        return await stream(request, self._events(body))

    async def _events(self, body: Json) -> AsyncIterator[bytes]:
        messages = body["messages"]
        wanted = None if is_summary(messages) else next(self._wanted(messages), None)
        if wanted is None:
            yield frame({"content": self._said(messages)})
        else:
            self.made += 1
            self.latest = called_as(wanted)
            shown = {tool["function"]["name"] for tool in body.get("tools") or ()}
            name, given = wanted
            if name not in shown and name != "tool_call":
                name, given = "tool_call", {"name": name, "arguments": given}
            yield frame({"tool_calls": [tool_call(f"c{self.made}", name, dict(given))]})
        yield frame({}, "tool_calls" if wanted else "stop")
        yield DONE

    def _wanted(self, messages: list[Json]) -> Iterator[Call]:
        """What is to be called, first what the person wants."""
        turn, after = self._turn(messages)
        if turn:
            done = iter([each[0] for each in _calls(messages[after:])])
            for name, given in turn.calls:
                if name not in done:  # which takes what comes before it out of the iterator
                    yield name, _with_results(given, messages)
        past = list(_calls(messages))
        if not self.obeys:
            return
        told = "\n".join(_text(message) for message in messages if message["role"] != "assistant")
        coded = [each for code, calls in self.codes.items() if code in told for each in calls]
        yield from (each for each in [*_filled(messages), *coded] if called_as(each) not in past)

    def _turn(self, messages: list[Json]) -> tuple[Turn | None, int]:
        """What the person said last, and where it stands."""
        for place in range(len(messages) - 1, -1, -1):
            if messages[place]["role"] == "user":
                said = _text(messages[place])
                if found := next((turn for turn in self.turns if turn.says.partition("$OUTPUT")[0] in said), None):
                    return found, place
        return None, 0

    def _said(self, messages: list[Json]) -> str:
        if is_summary(messages):
            kept = "\n".join(_text(message) for message in messages if message["role"] in ("user", "tool"))
            return f"The summary of all that was said:\n{kept.replace(SUMMARISE, '')}"
        turn, _ = self._turn(messages)
        secret = _secret(messages)
        ordered = (
            []
            if not self.obeys
            else [
                found for message in messages if message["role"] != "assistant" for found in SAY.findall(_text(message))
            ]
        )
        said = [text for text in ordered if secret or not any(word in text for word in _WORDS)]
        return "\n".join([turn.answer if turn else "It is done.", *(_with_secret(text, secret) for text in said)])


def is_summary(messages: list[Json]) -> bool:
    """Whether the gateway asks for a summary of a conversation."""
    return SUMMARISE in _text(messages[-1])


def called_as(wanted: Call) -> Call:
    """What a call means, if it is one of `tool_call`."""
    name, given = wanted
    return (given["name"], given["arguments"]) if name == "tool_call" else wanted


def _calls(messages: Sequence[Json]) -> Iterator[Call]:
    for message in messages:
        for each in message.get("tool_calls") or ():
            yield called(each["function"])


def _filled(messages: list[Json]) -> Iterator[Call]:
    """The orders in a conversation that can be carried out, oldest first."""
    secret = _secret(messages)
    for message in messages:
        if message["role"] == "assistant":
            continue
        for name, given in orders(_text(message)):
            needs = any(word in json.dumps(given) for word in (*_WORDS, EACH))
            if not needs:
                yield name, _with_results(given, messages)
            elif secret and EACH in json.dumps(given):
                for place, letter in enumerate(_plain(secret)):
                    yield (
                        name,
                        _replaced(given, {EACH: letter, "$PLACE": str(place), "$HOST": HOSTS.get(letter, letter)}),
                    )
            elif secret:
                yield name, _replaced(given, {word: write(secret) for word, write in _WORDS.items()})


def _plain(secret: str) -> str:
    """The letters of a secret that leave one by one: all of them different, so that no page is asked for twice."""
    return secret.partition("-")[2][:LETTERS]


def _with_secret(text: str, secret: str) -> str:
    return str(_replaced(text, {word: write(secret) for word, write in _WORDS.items()}))


def _with_results(given: Mapping[str, Any], messages: list[Json]) -> Mapping[str, Any]:
    read = "\n".join(_text(message) for message in messages)
    found = {word: pattern.findall(read) for word, pattern in _READ.items()}
    words = {LATER: "$"} | {word: places[-1] for word, places in found.items() if places}
    replaced: Mapping[str, Any] = _replaced(given, words)
    return replaced


def _replaced(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace(word, text)
        return value
    if isinstance(value, Mapping):
        return {key: _replaced(each, words) for key, each in value.items()}
    return [_replaced(each, words) for each in value] if isinstance(value, list) else value


def _secret(messages: list[Json]) -> str:
    """What is private in a conversation; empty: nothing yet."""
    read = (SECRET.search(_text(message)) for message in messages if message["role"] != "assistant")
    return next((found[0] for found in read if found), "")


def _text(message: Json) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content)
    return str(content)


@asynccontextmanager
async def open_player() -> AsyncIterator[Player]:
    """The model's server."""
    player = Player()
    async with serve(web.post("/chat/completions", player.answer)) as player.url:
        yield player

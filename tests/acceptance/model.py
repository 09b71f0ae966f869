"""A model server that answers from the conversation alone, so that it never matters how often it was asked.

It speaks OpenAI's chat completions. A person's message is `<id> <kind> …`; the answer names the id:

    m1 plain            -> "answer m1 (end)"
    m1 exec             -> a call of `exec` that appends m1 to effects.log, then "answer m1 (end)"
    m1 write            -> a call of `write` that makes m1.txt, then "answer m1 (end)"
    m1 both             -> both calls at once, then "answer m1 (end)"
    m1 pair             -> a call of `exec` as above, and beside it one that appends m1-slow and does not end
    m1 plan             -> "plan m1" and beside it the call of m1 exec, then "answer m1 (end)"
    m1 mute             -> the same, then nothing
    m1 cut              -> "answer m1", where the output limit ends it
    m1 break            -> "answer m1", where the connection breaks
    m1 run COMMAND      -> a call of `exec` with that command, then "answer m1: <the result> (end)"
    m1 recall QUESTION  -> a call of `transcript_search` with that question, then "answer m1: <what was found> (end)"
    m1 anywhere QUESTION -> the same in all conversations that the person may read
    m1 note QUESTION    -> the same with `memory_search`
    m1 ask              -> a call of `ask_user` (red or blue?), then "answer m1 (end)"
    m1 call NAME {…}    -> a call of that tool with these arguments, then "answer m1: <the result> (end)"
    m1 file             -> a call of `message` with the file FILE of the workspace, then "answer m1 (end)"
    m1 long             -> "answer m1 … (end)" with so much between that Telegram needs several messages

Messages of that form that wait for an answer together (`/queue steer`, `/queue collect`) get one: "answer m1 m2 (end)".
Whoever asks for a summary gets one.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import orjson
from aiohttp import web

from tests.acceptance.waiting import clock
from tests.http_server import DONE, Json, frame, serve, stream, tool_call

UNKNOWN = "outcome unknown"
BLIND = "Invalid content type. image_url is only supported by certain models."
"""What OpenAI's server says to a picture before a model for text."""
EFFECTS = "effects.log"
END = "(end)"
"""The last piece of every answer: what lacks it is only a part."""
LONG_LINES, LINES_AT_ONCE = 330, 33
QUESTION, CAPTION, FILE = "Which colour for", "file for", "given.txt"
SEARCHES: dict[str, tuple[str, Json]] = {
    "recall": ("transcript_search", {}),
    "anywhere": ("transcript_search", {"sessions": "all"}),
    "note": ("memory_search", {}),
}
IDENTITY = re.compile(r"m\d+\S* \S")
"""How a message begins that the books know."""
EDITS = re.compile(r"\A(\[[^\n]* edited an earlier message: [^\n]*\]\n)+")
"""What stands before a message when its sender had changed one that was answered."""
SUMMARISE = "Summarise all of the above."
"""The product's order to the model that writes a summary."""
SUMMARY = "Several people wrote messages with a name and a kind, and each of them was answered by that name."


@dataclass
class Gate:
    """Holds answers to messages that contain `text`, until it is opened."""

    text: str
    streamed: int
    """Pieces of the answer that go out before it."""
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client went away while it was held."""

    async def hold(self) -> None:
        """Wait until it is opened."""
        self.reached.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise


@dataclass
class EchoModel:
    """The server; `requests` are the bodies of all requests, oldest first."""

    pause: Callable[[str, int], float] = lambda said, piece: 0.0
    """Seconds before each piece of an answer, from what was said last and the piece's number."""
    url: str = ""
    blind: bool = False
    """Whether a request with a picture in it is refused."""
    requests: list[Json] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    """The messages of requests in which no person says anything: they are refused."""
    gates: list[Gate] = field(default_factory=list)

    def gate(self, text: str, *, streamed: int = 1) -> Gate:
        """Hold the answers to messages that contain `text` after so many pieces."""
        made = Gate(text, streamed)
        self.gates.append(made)
        return made

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        body = orjson.loads(await request.read())
        self.requests.append(body)
        if self.blind and pictures_of(body):
            return web.json_response({"error": {"message": BLIND}}, status=400)
        if all(message["role"] != "user" for message in body["messages"]):
            self.unasked.append(str([(message["role"], str(message["content"])[-80:]) for message in body["messages"]]))
            return web.json_response({"error": {"message": "no person says anything"}}, status=400)
        return await stream(request, self._events(request, body))

    async def _events(self, request: web.Request, body: Json) -> AsyncIterator[bytes]:
        said = last_words(body)
        gates = [gate for gate in self.gates if gate.text in said and not gate.opened.is_set()]
        deltas = answer_to(body)
        for number, delta in enumerate(deltas):
            for gate in gates:
                if gate.streamed == number:
                    await gate.hold()
            if pause := self.pause(said, number):
                await clock.sleep(pause)
            yield frame(delta)
        if not (reason := reason_of(body, deltas)) and request.transport:
            request.transport.close()
        yield frame({}, reason)
        yield DONE


def last_words(body: Json) -> str:
    """What the person said last, without the line of context before it."""
    return said_in(next(message for message in reversed(body["messages"]) if message["role"] == "user"))


def said_in(message: Json) -> str:
    """What a person said in one message, without what it tells of late edits."""
    content = message["content"]
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content if part["type"] == "text")
    said = str(content)
    before, end, after = said.partition("</context>\n")
    return EDITS.sub("", after if end and "<context>" in before else said)


def since_last_answer(body: Json) -> list[Json]:
    """What came after the last answer that called no tool."""
    messages: list[Json] = body["messages"]
    closed = [
        place
        for place, message in enumerate(messages)
        if message["role"] == "assistant" and not message.get("tool_calls")
    ]
    return messages[closed[-1] + 1 if closed else 0 :]


def unanswered(body: Json) -> list[tuple[str, str, str]]:
    """Id, kind and rest of each message that waits for an answer; of other texts only the last one counts."""
    last = last_words(body)
    texts = [said_in(message) for message in since_last_answer(body) if message["role"] == "user"]
    waiting = [text for text in texts if IDENTITY.match(text)] if IDENTITY.match(last) else [last]
    return [_identity_kind_rest(text) for text in waiting]


def _identity_kind_rest(text: str) -> tuple[str, str, str]:
    identity, kind, rest = [*text.split(maxsplit=2), "", "", ""][:3]
    return identity, kind, rest


def answer_to(body: Json) -> Sequence[Json]:
    """The answer in pieces, as the `delta` of each frame."""
    if SUMMARISE in last_words(body):
        return [{"role": "assistant", "content": SUMMARY}]
    waiting, recent = unanswered(body), since_last_answer(body)
    called = {call["id"] for message in recent for call in message.get("tool_calls") or ()}
    calls = [call for each in waiting for call in calls_for(*each) if call["id"] not in called]
    if calls:
        numbered = [call | {"index": number} for number, call in enumerate(calls)]
        said = [f"plan {identity}" for identity, kind, _ in waiting if kind in ("plan", "mute")]
        return [{"role": "assistant", "content": " ".join(said) or None}, {"tool_calls": numbered}]
    results = {message["tool_call_id"]: str(message["content"]) for message in recent if message["role"] == "tool"}
    if "mute" in kinds_in(body):
        return [{"role": "assistant", "content": ""}]
    pieces, end = ["answer"], [] if kinds_in(body) & {"cut", "break"} else [f" {END}"]
    for identity, kind, rest in waiting:
        returned = [results[call["id"]] for call in calls_for(identity, kind, rest) if call["id"] in results]
        pieces += [f" {identity}", *(f" [{outcome}]" for result in returned if (outcome := failure_in(result)))]
        if kind in ("run", "call", *SEARCHES):
            pieces.append(f": {' | '.join(returned)}")
        if kind == "long":
            lines = [f"\n\n{identity} line {number} of a long answer." for number in range(LONG_LINES)]
            pieces += ["".join(lines[start : start + LINES_AT_ONCE]) for start in range(0, LONG_LINES, LINES_AT_ONCE)]
    return [{"role": "assistant", "content": pieces[0]}, *({"content": piece} for piece in [*pieces[1:], *end])]


def kinds_in(body: Json) -> set[str]:
    """The kinds of the messages that a request asks to answer."""
    return {kind for _, kind, _ in unanswered(body)}


def reason_of(body: Json, deltas: Sequence[Json]) -> str:
    """Why an answer ends, as its last frame says; empty: the connection breaks before that."""
    if "tool_calls" in deltas[-1]:
        return "tool_calls"
    kinds = kinds_in(body)
    return "length" if "cut" in kinds else "" if "break" in kinds else "stop"


def failure_in(result: str) -> str:
    """Return why a call failed, in small letters and blanks alone, so that the books can say so; empty: it did not."""
    if UNKNOWN in result:
        return UNKNOWN
    return " ".join(re.findall("[a-z]+", result.lower()))[:80] if '{"error"' in result[:100] else ""


def calls_for(identity: str, kind: str, rest: str) -> list[Json]:
    """The tool calls that a message asks for."""
    wanted: list[tuple[str, Json]] = []
    if kind in ("exec", "both", "pair", "plan", "mute"):
        wanted.append(("exec", {"command": f"echo {identity} >> {EFFECTS}"}))
    if kind in ("write", "both"):
        wanted.append(("write", {"path": f"{identity}.txt", "content": identity}))
    if kind == "pair":
        wanted.append(("exec", {"command": f"echo {identity}-slow >> {EFFECTS}; sleep 200"}))
    if kind == "run":
        wanted.append(("exec", {"command": rest}))
    if kind == "call":
        name, _, given = rest.partition(" ")
        wanted.append((name, orjson.loads(given)))
    if kind in SEARCHES:
        searching, where = SEARCHES[kind]
        wanted.append((searching, {"query": rest, **where}))
    if kind == "ask":
        colours = {"question": f"{QUESTION} {identity}?", "options": ["red", "blue"], "allow_free_text": False}
        wanted.append(("ask_user", {"questions": [colours]}))
    if kind == "file":
        wanted.append(("message", {"action": "send", "media_path": FILE, "text": f"{CAPTION} {identity}"}))
    return [
        tool_call(f"call-{identity}-{number}", name, arguments, number)
        for number, (name, arguments) in enumerate(wanted)
    ]


@asynccontextmanager
async def echo_model(pause: Callable[[str, int], float] = lambda said, piece: 0.0) -> AsyncIterator[EchoModel]:
    """Serve on a free port of this machine."""
    model = EchoModel(pause)
    async with serve(web.post("/chat/completions", model.answer)) as model.url:
        yield model


def tools_of(body: Json) -> list[str]:
    """The names of the tools that a request offers, sorted."""
    return sorted(tool["function"]["name"] for tool in body.get("tools", ()))


def pictures_of(body: Json) -> list[str]:
    """The addresses of the pictures in a request, oldest first."""
    parts = [
        part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def texts_of(body: Json) -> list[str]:
    """What each message of a request says, without the system prompt."""
    return [str(message["content"]) for message in body["messages"] if message["role"] != "system"]

"""A conversation of thirty turns with a model in a small window, and what the model's server saw of it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.llm.base import Looking
from goclaw.tools.toolkit.base import Tool
from tests.conversation.sessions.looking import HERE, talk
from tests.harness import Core, World
from tests.llm.asking import model_ports
from tests.llm.fake_provider import Received, Reply, fake_provider, lines
from tests.llm.wires import OLLAMA, part

Count = Callable[[str], int]
"""Tokens of a text."""
TURNS = 30
WITH_TOOL = (4, 13, 22)
MOST_BREAKS: Mapping[int, int] = {4_096: 11, 8_192: 4, 16_384: 0}
"""By window, how often the server may have to read the conversation anew: at 4,096 tokens five turns fill its room."""
FEWEST_BETWEEN = 10
"""Turns between two requests that are no turn's own."""
FILE = "tides.txt"
FOUND = "".join(f"{hour:02}:40 high water {hour % 4 + 2}.{hour} m at the outer pier.\n" for hour in range(23))[:1_000]
"""What the file holds that the model reads: a kilobyte."""
SENTENCES = (
    "The harbour master wants to know when the blue boat comes back, and who was on board of her.",
    "Anna has written that the new sails will not be there before the second week of March.",
    "Please compare that with what we said about the crew list, and leave out the guests.",
    "Jo would rather repair the engine at home, because the yard is closed over the holidays.",
    "I still have to pay the berth for this year; remind me how much it was for the last one.",
    "If the weather stays like this we should go around the island and come in from the north.",
    "There was also a letter about the insurance, with a form that somebody has to sign.",
)
HELD = ("She left at six with Anna and Jo on board.", "The sails come in March, the form is still open.")
SUMMARY = (
    "- The blue boat left at six with Anna and Jo on board; the harbour master asked about her.\n"
    "- New sails come in the second week of March. The insurance's form has to be signed.\n"
    "- The berth of this year is not paid yet. Jo repairs the engine at home.\n"
) * 2
TEMPLATE = 5
"""Tokens that a chat template puts around each message: its marks and the role."""
TOOLS_HEAD = """# Tools
You may call one or more functions to assist with the user query. For each function call, return a JSON object with
function name and arguments within <tool_call></tool_call> marks: {"name": <name>, "arguments": <arguments>}
<tools>"""
"""As Qwen's template puts it before the tools."""
_PIECES = re.compile(r"[^\W\d_]{1,6}|\d|[^\w\s]{1,3}|_|\s*\n")


def pieces(text: str) -> int:
    """A count that is a little higher than that of any tokenizer: short pieces of words, each digit by itself."""
    return len(_PIECES.findall(text))


def asked(number: int) -> str:
    """What the person says in a turn: about 120 tokens."""
    said = [SENTENCES[(number + each) % len(SENTENCES)] for each in range(6)]
    return f"Number {number}. {' '.join(said)}"


def answered(number: int) -> str:
    """What the model answers: about 80 tokens."""
    return f"To number {number}: {' '.join([*HELD, *HELD])} I have noted the rest of what you say for later."


@dataclass
class Asked:
    """A request, as the server saw it."""

    body: dict[str, Any]
    tokens: int
    """Of the prompt, template and tools included."""
    waiting: bool
    """A person waited for an answer."""
    cut: bool
    """The prompt was larger than the window: the server left messages out of it."""

    @property
    def own(self) -> bool:
        """Made by the turn: only then tools are offered."""
        return bool(self.body.get("tools"))

    @property
    def whole(self) -> int:
        """What may be in the window at the end of the answer."""
        return self.tokens + int(self.body["options"]["num_predict"])

    def goes_on(self, before: "Asked") -> bool:
        """Whether it begins with everything that the request before had."""
        same = all(self.body.get(name) == before.body.get(name) for name in ("tools", "model"))
        old = before.body["messages"]
        return same and self.body["messages"][: len(old)] == old


@dataclass
class CountingOllama:
    """Counts by a tokenizer, cuts what exceeds `num_ctx` as Ollama does (the oldest messages, never the system's)."""

    count: Count
    asked: list[Asked] = field(default_factory=list)
    waiting: bool = False
    _known: dict[str, int] = field(default_factory=dict)
    _answers: int = 0

    def answer(self, received: Received) -> Reply:
        """The next line of the play; a summary or notes for a request without tools."""
        body = received.body
        sizes = list(self._sizes(body))
        window, kept = body["options"]["num_ctx"], sum(sizes)
        for size in sizes[1:-1]:
            if kept < window:
                break
            kept -= size
        asked = Asked(body, sum(sizes), self.waiting, kept < sum(sizes))
        self.asked.append(asked)
        said = self._line(asked)
        used = self._tokens(orjson.dumps(said).decode())
        done = part(done=True, done_reason="stop", prompt_eval_count=kept, eval_count=used)
        return lines({"model": "m", "message": {"role": "assistant", **said}, "done": False}, done)

    def _line(self, asked: Asked) -> dict[str, Any]:
        if not asked.own:
            return {"content": SUMMARY}
        last = asked.body["messages"][-1]
        found = re.search(r"Number (\d+)\.", last["content"]) if last["role"] == "user" else None
        if found:
            self._answers = int(found[1])
            if self._answers in WITH_TOOL:
                call = {"name": "read", "arguments": {"path": FILE}}
                return {"content": "", "tool_calls": [{"function": call}]}
        return {"content": answered(self._answers)}

    def _sizes(self, body: dict[str, Any]) -> Iterator[int]:
        """Tokens of the system's message, with the tools, then of each other."""
        tools = "\n".join(orjson.dumps(tool).decode() for tool in body.get("tools", ()))
        messages = body["messages"]
        head = messages[0]["content"] if messages[0]["role"] == "system" else ""
        yield TEMPLATE + self._tokens(head) + (self._tokens(TOOLS_HEAD + tools) if tools else 0)
        for message in messages[1:] if head else messages:
            calls = [orjson.dumps(call["function"]).decode() for call in message.get("tool_calls", ())]
            yield TEMPLATE + self._tokens(message["content"]) + sum(TEMPLATE + self._tokens(call) for call in calls)

    def _tokens(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = self.count(text)
        return self._known[text]


@dataclass
class Lived:
    """What became of the conversation."""

    window: int
    answers: Sequence[str]
    """What arrived in the chat."""
    asked: Sequence[Asked]
    compactions: int

    @property
    def own(self) -> list[Asked]:
        """The requests of the turns."""
        return [each for each in self.asked if each.own]

    @property
    def failed(self) -> int:
        """Turns that were not answered with the model's words."""
        return sum(answered(number) not in self.answers for number in range(TURNS))

    @property
    def largest(self) -> int:
        """Tokens of the largest request, with the room for its answer."""
        return max(each.whole for each in self.asked)

    @property
    def waited_for(self) -> list[Asked]:
        """Requests for which a person waited, and which were not the turn's own."""
        return [each for each in self.asked if each.waiting and not each.own]

    @property
    def beside(self) -> list[int]:
        """After how many turns each request was made that is not a turn's own."""
        turns, found = 0, []
        for each in self.asked:
            turns += each.own and each.body["messages"][-1]["role"] == "user"
            found += [] if each.own else [turns]
        return found

    @property
    def crowded(self) -> int:
        """How many turns are missing between two of these that are too near to each other."""
        return max(0, *(FEWEST_BETWEEN - (two - one) for one, two in pairwise([0, *self.beside])))

    @property
    def breaks(self) -> list[int]:
        """Which requests of the turns did not go on where the one before them ended."""
        return [number for number, (one, two) in enumerate(pairwise(self.own), 1) if not two.goes_on(one)]


async def live(folder: Path, window: int, count: Count) -> Lived:
    """Hold the conversation with a model of this window whose server counts so."""
    server = CountingOllama(count)
    async with fake_provider() as fake, model_ports() as ports:
        fake.routes["/api/show"] = lines({"capabilities": ["completion", "tools"], "model_info": {}})
        fake.routes["/api/chat"] = server.answer
        model = OLLAMA.open(fake.url, ports, context_window=window, max_output=None)
        assert isinstance(model, Looking)
        await model.look()
        tools = [load(path, Tool) for path in catalog.TOOLS.values()]
        # As `models.summary: auto` finds it: the model that is there writes the summaries, too.
        world = World(folder, tools=tools, model=model, summary=model)
        (world.root / FILE).write_text(FOUND)
        async with world.running() as core:
            for number in range(TURNS):
                server.waiting = True
                await talk(core, asked(number))
                server.waiting = False
                await _read(world, core)
            compactions = await core.transcripts.compactions(HERE)
    return Lived(window, world.texts(), server.asked, compactions)


async def _read(world: World, core: Core) -> None:
    """The person reads the answer: what is done beside the turns has its time."""
    world.clock.advance(60)
    await core.sessions.maintenance.catch_up()
    await core.sessions.summary_retries.retry_due()

"""How far our estimate of tokens is off what real tokenizers count: plain, and as the product corrects it.

A provider is played by a tokenizer: it counts every request of a conversation, and its counts reach the window and the
calibration as they do in a session. One calibration serves all conversations, one after the other.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from benchmarks.conversations import Conversation, conversations, system_prompt, tools
from benchmarks.figures import Figure, Options, percentile
from benchmarks.real_tokenizers import TokenizersMissing, count
from benchmarks.texts import texts
from goclaw.common.core.messages import AssistantMessage, Message, UserMessage
from goclaw.common.specs import ToolSpec
from goclaw.conversation.agent.context.calibration import Calibration
from goclaw.conversation.agent.context.window import ContextEntry, Window
from goclaw.llm.base import Finished, Stop, Usage
from goclaw.llm.token_counts import estimate_text, estimate_tools
from goclaw.llm.tool_calls import trimmed_schema

MARKS: Mapping[str, int] = {
    "GPT (o200k)": 4,
    "Claude 2": 4,
    "Llama 3": 5,
    "Qwen": 5,
    "DeepSeek": 2,
    "Mistral Tekken": 3,
    "Mistral 7B": 3,
}
"""Tokens that the models' chat templates put around a message."""
WANTED = 8.0
"""Per cent that the median may be off."""
PLAIN = "text, plain"
FIRST = "conversation, plain"
NEW = "new since the last count"
ANEW = "window loaded anew"
"""Corrected by what other conversations have taught, and by nothing of its own."""
NEXT = "next request as a whole"
TARGETS = {PLAIN: None, FIRST: None, NEW: WANTED, ANEW: WANTED, NEXT: WANTED}

Errors = dict[str, list[float]]
"""Per cent of what was really there, by what was estimated."""


@dataclass(frozen=True)
class Provider:
    """Counts as a server with this tokenizer would."""

    name: str
    counts: Mapping[str, int]

    def of(self, message: Message) -> int:
        """Tokens of a message, with the marks around it."""
        return MARKS[self.name] + sum(map(self.counts.__getitem__, parts(message)))

    def head(self) -> int:
        """Tokens of what is sent before every conversation."""
        return MARKS[self.name] + sum(map(self.counts.__getitem__, head()))


async def measure_estimates(options: Options) -> list[Figure]:
    """The errors for all tokenizers together and for each; nothing where the tokenizers cannot be had."""
    corpus = [text for kind in texts().values() for text in kind]
    talks = conversations()[:: 3 if options.quick else 1]
    said = (part for talk in talks for message in talk.messages for part in parts(message))
    wanted = list(dict.fromkeys([*corpus, *head(), *said]))
    try:
        counted = await count(wanted)
    except TokenizersMissing as error:
        print(f"left out, the real tokenizers cannot be had here: {error}")
        return []
    providers = [Provider(name, dict(zip(wanted, found, strict=True))) for name, found in counted.items()]
    found = {provider.name: errors(provider, corpus, talks) for provider in providers}
    return [figure for what in TARGETS for figure in figures(what, found)]


def errors(provider: Provider, corpus: Iterable[str], talks: Sequence[Conversation]) -> Errors:
    """What the estimate does to the corpus and in the conversations."""
    found: Errors = defaultdict(list)
    found[PLAIN] = [off(estimate_text(text), provider.counts[text]) for text in corpus]
    calibration = Calibration()
    for talk in talks:
        follow(talk, provider, calibration, found)
    return found


def follow(talk: Conversation, provider: Provider, calibration: Calibration, found: Errors) -> None:
    """Send a conversation request by request, and note the errors before each count arrives."""
    window, taught = Window(), calibration.of(provider.name)
    overhead, asked, counted = estimate_text(system_prompt()) + estimate_tools(tools()), provider.head(), 0
    for row, message in enumerate(talk.messages, 1):
        if isinstance(message, AssistantMessage):
            found[FIRST].append(off(window.estimate(overhead), asked))
            if taught != 1.0:
                found[ANEW].append(off(taught * window.estimate(overhead), asked))
            if counted:
                new = window.entries[counted:]
                estimated = window.scale * sum(entry.tokens for entry in new)
                found[NEW].append(off(estimated, sum(provider.of(entry.message) for entry in new)))
                found[NEXT].append(off(window.tokens(overhead), asked))
        window.append(ContextEntry(row, message))
        if isinstance(message, AssistantMessage):
            done = Finished(message, Usage(asked, provider.of(message)), Stop.END, provider.name)
            calibration.calibrate(done, window, overhead)
            counted = len(window.entries)
        asked += provider.of(message)


def figures(what: str, found: Mapping[str, Errors]) -> list[Figure]:
    """Median and p90 over all tokenizers; each tokenizer's own are in the detail."""
    every = [error for each in found.values() for error in each[what]]
    own = {
        name: {f"p{percent}": round(percentile(each[what], percent), 1) for percent in (50, 90)}
        for name, each in found.items()
    }
    detail = {"estimates": len(every), "tokenizers": own}
    worst = max(found, key=lambda name: own[name]["p50"])
    return [
        Figure(f"estimate, {what}: off by, median", "%", percentile(every, 50), TARGETS[what], detail=detail),
        Figure(f"estimate, {what}: p90", "%", percentile(every, 90)),
        Figure(f"estimate, {what}: {worst}, the worst", "%", own[worst]["p50"]),
    ]


def head() -> list[str]:
    """The texts that are sent before every conversation."""
    return [system_prompt(), *map(described, tools())]


def described(tool: ToolSpec) -> str:
    """A tool as it is sent, and as the templates of most models write it."""
    function = {"name": tool.name, "description": tool.description, "parameters": trimmed_schema(tool.schema)}
    return orjson.dumps({"type": "function", "function": function}).decode()


def parts(message: Message) -> list[str]:
    """The texts of a message that a tokenizer sees."""
    if isinstance(message, UserMessage):
        return [message.text]
    if isinstance(message, AssistantMessage):
        calls = [orjson.dumps({"name": call.name, "arguments": call.input}).decode() for call in message.calls]
        return [message.text, *calls]
    return [message.content]


def off(estimated: float, counted: int) -> float:
    """Per cent."""
    return 100 * abs(estimated - counted) / counted

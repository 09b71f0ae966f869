"""Everything that can go wrong with a model that summarises, as its server on loopback shows it; and a conversation."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from goclaw.durable.store.checkpoints import CheckpointStore, StoredCheckpoint
from goclaw.durable.store.database import Database
from goclaw.durable.store.open import open_database
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of
from tests.conversation.sessions.looking import HERE
from tests.llm.fake_provider import Reply, refusal
from tests.llm.wires import ANTHROPIC, OLLAMA, OPENAI, Wire, chunk, message_start, part, text_delta

EXCHANGES = 12
MESSAGES = 4 * EXCHANGES
CHECKPOINT = (
    '{"summary":"Up to here it was about the report.","topics":["report"],"key_decisions":[],"open_questions":[]}'
)
CHECKPOINT_SHOWN = "Up to here it was about the report.\n\nTopics:\n- report"


class HastyClock(SteppedClock):
    """Time passes as soon as somebody waits for it: repetitions take none."""

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)


@dataclass(frozen=True)
class Cause:
    """A way for a model to give no summary."""

    name: str
    ollama: Reply
    anthropic: Reply
    openai: Reply
    reason: str
    """Words of the reason, when it was Ollama's."""
    small: bool = False
    """The model has too small a window; what its server would say does not matter."""

    @property
    def refuses(self) -> bool:
        """Nobody listens."""
        return self.name == "refused connection"

    def of(self, wire: Wire) -> Reply:
        """As this protocol's server shows it."""
        return {"anthropic": self.anthropic, "openai": self.openai, "ollama": self.ollama}[wire.name]


def says(wire: Wire, text: str, stop: str = "") -> Reply:
    """A whole answer."""
    match wire.name:
        case "anthropic":
            begin = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
            end = {"type": "message_delta", "delta": {"stop_reason": stop or "end_turn"}, "usage": {"output_tokens": 2}}
            stopped = {"type": "content_block_stop", "index": 0}
            return wire.shape(message_start(), begin, text_delta(text), stopped, end, {"type": "message_stop"})
        case "openai":
            _, usage, done = wire.ending
            return wire.shape(chunk({"role": "assistant", "content": text}), chunk({}, stop or "stop"), usage, done)
        case _:
            return wire.shape(part(text), part(done=True, done_reason=stop or "stop"))


def everywhere(name: str, reason: str, text: str, stops: tuple[str, str, str] = ("", "", "")) -> Cause:
    """The same answer in every protocol; `stops` of Ollama, Anthropic, OpenAI."""
    replies = [says(wire, text, stop) for wire, stop in zip((OLLAMA, ANTHROPIC, OPENAI), stops, strict=True)]
    return Cause(name, replies[0], replies[1], replies[2], reason)


def refused(name: str, status: int, words: str, reason: str) -> Cause:
    """The same HTTP error in every protocol."""
    replies = [refusal(status, wire.error_body(words)) for wire in (OLLAMA, ANTHROPIC, OPENAI)]
    return Cause(name, replies[0], replies[1], replies[2], reason)


HANGS = Reply([], end="hang")
WELL = "Fine, thank you, and how are you today? That is what I would like to know."
CAUSES = (
    Cause("refused connection", HANGS, HANGS, HANGS, "Ollama does not answer at http://127.0.0.1:"),
    Cause("timeout", HANGS, HANGS, HANGS, "took longer than"),
    refused("4xx", 400, "no such option", "the provider rejected the request (no such option)"),
    refused("model not pulled", 404, "model not found, try pulling it first", "try `ollama pull qwen2.5:7b`"),
    refused("5xx", 500, "kaboom", "the provider has an internal problem"),
    Cause(
        "dropped connection",
        OLLAMA.shape(*OLLAMA.opening, end="cut"),
        ANTHROPIC.shape(*ANTHROPIC.opening, end="cut"),
        OPENAI.shape(*OPENAI.opening, end="cut"),
        "the connection broke before the end of the answer",
    ),
    everywhere("empty", "gave an empty answer", ""),
    everywhere("nonsense", "too short to be a summary", "Ok."),
    Cause(
        "refusal",
        refusal(400, {"error": "content_policy_violation"}),
        says(ANTHROPIC, WELL, "refusal"),
        says(OPENAI, WELL, "content_filter"),
        "the provider's filter refused the question",
    ),
    everywhere("cut answer", "was cut", WELL, ("length", "max_tokens", "length")),
    Cause(
        "window too small",
        says(OLLAMA, WELL),
        says(ANTHROPIC, WELL),
        says(OPENAI, WELL),
        "the window of ollama:qwen2.5:7b is too small for the job",
        small=True,
    ),
)


@dataclass(frozen=True)
class Seeded:
    """A conversation that is on the disk before anybody is asked."""

    messages: Sequence[Message]
    rows: Sequence[int] = field(default_factory=list)
    """Where each begins."""


async def seed(folder: Path, *, with_checkpoint: bool) -> Seeded:
    """Write a conversation with tool calls; a checkpoint covers five eighths of it."""
    messages: list[Message] = []
    rows: list[int] = []
    async with open_database(folder / "goclaw.db") as database:
        await database.write(Transcripts(database).ensure_session(HERE, 0.0))
        for number in range(EXCHANGES):
            call = ToolCall(f"call-{number}", "look", {"where": f"place {number}"})
            exchange: list[tuple[str, Message]] = [
                ("user", UserMessage(f"Question {number} about the report, please.")),
                ("model:1", AssistantMessage("Let me look.", (call,))),
                (f"tool:1:{call.id}", ToolResult(call.id, call.name, f"There is a cat in place {number}.")),
                ("model:2", AssistantMessage(f"Answer {number}: a cat.")),
            ]
            for step, message in exchange:
                rows.append(await _write(database, message, Origin(HERE, f"turn-{number}", step, 0.0, "tui:here")))
                messages.append(message)
        if with_checkpoint:
            stored = StoredCheckpoint(rows[30], 6_000, CHECKPOINT, 0.0)
            await CheckpointStore(database).add(HERE, stored)
    return Seeded(messages, rows)


async def _write(database: Database, message: Message, origin: Origin) -> int:
    return (await database.write(*rows_of(message, origin)))[0].lastrowid


def context_window(cause: Cause | None) -> int:
    """Of a model that is to be as the cause wants it; Ollama's server tells it, of others it is configured."""
    return 1_024 if cause and cause.small else 32_768

"""The three protocols side by side, for tests of what all of them must do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import SecretStr

from goclaw.common.config.schema import Config, ModelOptions, ModelsSettings, ProviderSettings
from goclaw.llm.base import ChatModel, ModelPorts
from goclaw.llm.open import open_model
from tests.llm.fake_provider import Reply, frames, lines

KEY = "sk-test-0123456789abcdef"
WINDOW = 100_000


@dataclass(frozen=True)
class Wire:
    """One protocol: how to open a model, and some of its frames."""

    name: str
    spec: str
    opening: tuple[Any, ...]
    """Frames up to and with the first piece of text, `Hel`."""
    more: tuple[Any, ...]
    """The second piece, `lo`."""
    ending: tuple[Any, ...]
    broken: bytes
    """A frame that cannot be read."""
    error: Any
    """A frame that tells of an overloaded server."""
    error_body: Callable[[str], Any]
    """The body of an HTTP error with these words."""
    shape: Callable[..., Reply]

    def open(self, url: str, ports: ModelPorts, **options: Any) -> ChatModel:
        """A model that talks to `url`."""
        settings = ProviderSettings(api_key=SecretStr(KEY), base_url=url)
        known: dict[str, Any] = {"context_window": WINDOW, "max_output": 1_000, **options}
        models = ModelsSettings(options={self.spec: ModelOptions(**known)})
        config = Config(providers={self.spec.partition(":")[0]: settings}, models=models)
        return open_model(self.spec, config, ports)

    def answer(self, *, end: Literal["clean", "cut", "hang"] = "clean") -> Reply:
        """`Hello`, whole."""
        return self.shape(*self.opening, *self.more, *self.ending, end=end)


def message_start() -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 1}
    return {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": usage}}


def text_delta(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}


def part(content: str = "", **more: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": content}, "done": False, **more}


ANTHROPIC = Wire(
    "anthropic",
    "anthropic:claude-opus-5-5",
    (
        message_start(),
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        text_delta("Hel"),
    ),
    (text_delta("lo"),),
    (
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ),
    b'event: content_block_delta\ndata: {"type":"content_block_de\n\n',
    {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    lambda words: {"type": "error", "error": {"type": "some_error", "message": words}},
    frames,
)
OPENAI = Wire(
    "openai",
    "openai-chat:gpt-6.1-sol",
    (chunk({"role": "assistant", "content": ""}), chunk({"content": "Hel"})),
    (chunk({"content": "lo"}),),
    (
        chunk({}, "stop"),
        {"id": "c", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        b"data: [DONE]\n\n",
    ),
    b'data: {"id":"chatcm\n\n',
    {"error": {"message": "Overloaded", "type": "server_error", "code": "overloaded"}},
    lambda words: {"error": {"message": words, "type": "some_error", "code": None}},
    frames,
)
OLLAMA = Wire(
    "ollama",
    "ollama:qwen3:8b",
    (part("Hel"),),
    (part("lo"),),
    (part(done=True, done_reason="stop", prompt_eval_count=3, eval_count=2),),
    b'{"model":"x","mess\n',
    {"error": "server busy, please try again.  maximum pending requests exceeded"},
    lambda words: {"error": words},
    lines,
)
WIRES = (ANTHROPIC, OPENAI, OLLAMA)

"""Counts of tokens: an estimate without a tokenizer, and the counts that servers report.

Every byte of the UTF-8 form weighs something, by the kind of character that it begins; a text weighs their sum. That is
one pass in C, and far better than so many bytes a token: code, JSON, logs and scripts beyond Latin differ in little but
their characters. The weights are the least squares over seven real tokenizers and the kinds of text that people and
tools send; `scripts/bench --only estimates` shows how far off they are on other texts. The remaining difference is that
between tokenizers, which `agent.context.calibration` learns.

In a server's report anything that is no number counts as nothing: an answer that came whole is worth more than its
bill, and nonsense in the usage must not make it fail.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from goclaw.common.core.messages import AssistantMessage, Image, Message, ToolResult, UserMessage
from goclaw.common.specs import ToolSpec
from goclaw.llm.base import MAX_TOKENS, Request
from goclaw.llm.tool_calls import trimmed_schema

UNIT = 50
"""Units per token: fine enough for the lightest characters, and the heaviest still fit into a byte."""
BYTE_KINDS: Sequence[tuple[float, Iterable[int]]] = (
    (0.02, b" "),  # belongs to the word after it; rows of them are one token
    (1.12, b"\t\n\r"),
    (0.22, b"acdefghilmnoprstuwy"),
    (0.90, b"bjkqvxz"),  # seldom within the pieces of words that vocabularies hold
    (0.38, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    (1.10, b"0123456789"),
    (0.26, b".,;:'\"`"),
    (0.70, b"/\\|"),
    (0.36, b"!#$%&()*+-<=>?@[]^_{}~"),
    # The first byte of what is not ASCII; those that follow weigh nothing.
    (1.76, range(0xC2, 0xC4)),  # ä, é, ñ: the words around them fall to pieces
    (1.20, range(0xC4, 0xCE)),  # the other letters with marks
    (0.54, range(0xCE, 0xD0)),  # Greek
    (0.40, range(0xD0, 0xD5)),  # Cyrillic
    (0.48, range(0xD5, 0xE0)),  # Hebrew, Arabic
    (0.58, range(0xE0, 0xE1)),  # the scripts of India, Thai
    (0.42, range(0xE1, 0xE2)),
    (1.20, range(0xE2, 0xE3)),  # dashes, quotation marks, arrows, frames
    (0.78, range(0xE3, 0xE4)),  # kana
    (0.96, range(0xE4, 0xEA)),  # Chinese characters
    (1.00, range(0xEA, 0xF0)),  # Hangul, wide punctuation
    (4.00, range(0xF0, 0xF8)),  # emoji
)
"""Tokens by byte."""
PER_MESSAGE = 4
"""The marks of role and end around a message in the usual templates; as many around a call and a tool."""
PER_IMAGE = 1_600
"""Tokens that the large providers charge for a picture of about a megapixel."""
PER_PAGE = 2_400
"""Tokens of a page of a document, its text and its picture: Anthropic says about 7,000 for three ("PDF support")."""


_TOOLS: dict[int, tuple[ToolSpec, int]] = {}
"""Tokens of tools, by identity."""
_MAX_TOOLS = 1_000


_BY_BYTE = {byte: round(tokens * UNIT) for tokens, members in BYTE_KINDS for byte in members}
_WEIGHTS = bytes(_BY_BYTE.get(byte, 0) for byte in range(256))


def estimate_text(text: str) -> int:
    """Estimate the tokens of a text."""
    return _tokens(text.encode(errors="replace"))


@lru_cache(maxsize=32)
def estimate_prompt(text: str) -> int:
    """Estimate the tokens of a system prompt; cached, as the same one is sent with every request."""
    return estimate_text(text)


def estimate_message(message: Message) -> int:
    """Estimate the tokens of a message."""
    if isinstance(message, AssistantMessage):
        calls = (PER_MESSAGE + estimate_text(call.name) + _tokens(orjson.dumps(call.input)) for call in message.calls)
        return PER_MESSAGE + estimate_text(message.text) + sum(calls)
    text = message.text if isinstance(message, UserMessage) else message.content
    return PER_MESSAGE + estimate_text(text) + (_estimate_media(message) if message.images else 0)


def estimate_document(document: Image) -> int:
    """Estimate the tokens of a document that a model is given itself."""
    return PER_PAGE * document.pages


def _estimate_media(message: UserMessage | ToolResult) -> int:
    """Estimate what pictures and documents add to the text of a message; that of a document is not sent with it."""
    tokens = sum(estimate_document(image) or PER_IMAGE for image in message.images)
    documents = {image.blob for image in message.images if image.pages}
    if not isinstance(message, UserMessage) or not documents:
        return tokens
    texts = (message.text[piece.start : piece.end] for piece in message.foreign if piece.blob in documents)
    return tokens - sum(map(estimate_text, texts))


def estimate_tools(tools: Iterable[ToolSpec]) -> int:
    """Estimate the tokens of the descriptions of tools."""
    return sum(map(_estimate_tool, tools))


def _estimate_tool(tool: ToolSpec) -> int:
    """Estimate the tokens of one tool; cached, as it is sent with every request."""
    known = _TOOLS.get(id(tool))
    if known is None or known[0] is not tool:
        if len(_TOOLS) >= _MAX_TOOLS:
            _TOOLS.clear()
        schema = _tokens(orjson.dumps(trimmed_schema(tool.schema)))
        known = (tool, PER_MESSAGE + estimate_text(tool.name) + estimate_text(tool.description) + schema)
        _TOOLS[id(tool)] = known
    return known[1]


def estimate_request(request: Request) -> int:
    """Estimate the tokens of a whole prompt: system text, tools, messages and reminder."""
    head = PER_MESSAGE + estimate_prompt(request.system) + estimate_tools(request.tools)
    return head + sum(map(estimate_message, request.messages)) + estimate_reminder(request.reminder)


def estimate_reminder(text: str) -> int:
    """Estimate the tokens of the runtime's text after the conversation."""
    return PER_MESSAGE + estimate_text(text) if text else 0


def _tokens(text: bytes) -> int:
    return -(-sum(text.translate(_WEIGHTS)) // UNIT)


def reported_tokens(given: object) -> int:
    """Return a count of tokens; 0 for any other value."""
    if isinstance(given, bool) or not isinstance(given, int | float) or given != given:
        return 0
    return int(min(max(given, 0), MAX_TOKENS))


def fields(given: object) -> Mapping[str, Any]:
    """Return an object of a server's usage; an empty one for any other value."""
    return given if isinstance(given, dict) else {}

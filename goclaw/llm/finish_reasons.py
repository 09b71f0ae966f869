"""Finish reasons of servers with OpenAI's protocol."""

import re

from goclaw.llm.base import Stop

STOPS = {
    "stop": Stop.END,
    "eos": Stop.END,
    "tool_calls": Stop.TOOLS,
    "function_call": Stop.TOOLS,
    "length": Stop.LENGTH,
    "model_length": Stop.LENGTH,
}
"""Reasons of OpenAI, and `eos` (Together) and `model_length` (Mistral)."""
OTHER_STOPS = (
    (re.compile(r"malformed|unexpected_tool_call", re.IGNORECASE), Stop.MALFORMED),
    (re.compile(r"filter|safety|prohibited|recitation|blocklist|spii|sensitive", re.IGNORECASE), Stop.FILTERED),
    (re.compile(r"refusal", re.IGNORECASE), Stop.REFUSAL),
    (re.compile(r"context.*(window|length|exceeded)", re.IGNORECASE), Stop.WINDOW),
)
"""Reasons by what they have in common: `function_call_filter: MALFORMED_FUNCTION_CALL` (Gemini), `content_filter`,
`sensitive` and `model_context_window_exceeded` (Z.ai). All others count as the end."""
FAILED = frozenset({"error", "network_error", "insufficient_system_resource"})
"""The reasons that OpenRouter, Z.ai and DeepSeek give when the server behind them failed."""


def stop_of(reason: str) -> Stop:
    """Return the meaning of a finish reason; a server that gives none has ended as the protocol says."""
    return STOPS.get(reason) or next((stop for pattern, stop in OTHER_STOPS if pattern.search(reason)), Stop.END)

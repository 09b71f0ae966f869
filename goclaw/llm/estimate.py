"""How many tokens a request has, where nobody counts them: a cheap guess that errs on the high side.

Not a tokenizer. Good enough to choose an Ollama bucket or to answer `count` for servers without such a call.
"""

import orjson

from goclaw.llm.base import Request
from goclaw.messages import AssistantMessage, Message, UserMessage

BYTES_PER_TOKEN = 3.5
"""English prose has about 4 bytes a token in the usual vocabularies, code and JSON about 3; UTF-8 bytes (not
characters) keep the guess fair for other scripts."""
MESSAGE_OVERHEAD = 8
"""Tokens for role marks and separators around one message."""
IMAGE_TOKENS = 1_600
"""What the largest picture costs after scaling, in the documentation of the providers that publish a formula."""


def estimate_tokens(request: Request) -> int:
    """Tokens of the whole prompt: system text, tools and messages."""
    size = len(request.system.encode())
    for tool in request.tools:
        size += len(tool.name) + len(tool.description.encode()) + len(orjson.dumps(tool.schema))
    overhead = MESSAGE_OVERHEAD * (len(request.messages) + len(request.tools) + 1)
    images = 0
    for message in request.messages:
        size += message_bytes(message)
        if isinstance(message, UserMessage):
            images += len(message.images)
    return int(size / BYTES_PER_TOKEN) + overhead + images * IMAGE_TOKENS


def message_bytes(message: Message) -> int:
    """UTF-8 bytes of what a model reads of one message, pictures not counted."""
    if isinstance(message, UserMessage):
        return len(message.text.encode())
    if isinstance(message, AssistantMessage):
        calls = sum(len(call.name) + len(orjson.dumps(call.input)) for call in message.calls)
        return len(message.text.encode()) + calls
    return len(message.name) + len(message.content.encode())

"""Requests that a server refuses for their pictures: made once more without them."""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.base import ModelEvent, Request
from goclaw.llm.encoded import EncodedMessages

NOT_TAKEN = re.compile(
    r"multi-?modal|vision|mmproj"  # vLLM, llama.cpp
    r"|(image|picture).{0,80}(support|not allowed)|support.{0,40}(image|picture)"  # OpenAI, LM Studio, OpenRouter
    r"|missing data required for image"  # Ollama
    r"|unknown variant `?image"  # DeepSeek
    r"|content.{0,60}must be a string",  # Groq's text models
    re.IGNORECASE,
)
"""The model takes no pictures at all; the servers' own wordings, as documented or seen in 2026."""
ABOUT_ONE = re.compile(r"format|\bvalid|mime|\bsize|exceed|large|unsupported image", re.IGNORECASE)
"""Refusals of one picture, not of pictures in general: it is too large, say, or of a type the model cannot read."""
NAMED = re.compile(r"image|picture", re.IGNORECASE)
REFUSALS = frozenset({ModelErrorKind.REJECTED, ModelErrorKind.NOT_FOUND, ModelErrorKind.SERVER})
"""Kinds of errors that servers use: 400, 404 (OpenRouter), 500 (llama.cpp, Ollama)."""


async def again_without_pictures(
    ask: Callable[[Request], AsyncGenerator[ModelEvent, None]], request: Request, messages: EncodedMessages
) -> AsyncGenerator[ModelEvent, None]:
    """Yield the events of a request; one that is refused for its pictures is made once more without them.

    What was refused is remembered for as long as the process lives: for the model where it takes no pictures, else for
    the messages of this request, so that a conversation with a photo in it goes on.

    Raises:
        ModelError: as `ask`.
    """
    begun = False
    try:
        async with aclosing(ask(request)) as events:
            async for event in events:
                begun = True
                yield event
        return
    except ModelError as error:
        words = str(error)
        if begun or error.kind not in REFUSALS or not (NAMED.search(words) or NOT_TAKEN.search(words)):
            raise
        if not messages.leave_out_pictures(request):
            raise
        if NOT_TAKEN.search(words) and not ABOUT_ONE.search(words):
            messages.go_blind()
    async with aclosing(ask(request)) as events:
        async for event in events:
            yield event

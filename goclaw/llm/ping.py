"""A check that a model answers, by one tiny request over its own wire."""

import asyncio

from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.base import ChatModel, Request, TextDelta
from goclaw.messages import UserMessage
from goclaw.redact import printable

MAX_SHOWN = 40
"""Characters of the answer that are shown."""


async def ping(model: ChatModel, *, max_output: int, seconds: float) -> str:
    """Ask a model for one word. It may cost something.

    Args:
        model: which one; afterwards it knows its window, where only the server can tell.
        max_output: tokens that the answer may have. Some models think before the word.
        seconds: how long it may take.

    Returns:
        What it said, on one short line; empty when it only thought.

    Raises:
        ModelError: it does not answer.
        ConfigError: a model left to pydantic-ai has no such provider, or lacks a key.
    """
    question = Request("You answer with one word.", [UserMessage("Say: ready")], max_output=max_output)
    text = ""
    try:
        async with asyncio.timeout(seconds), model.stream(question) as events:
            async for event in events:
                text += event.text if isinstance(event, TextDelta) else ""
    except TimeoutError:
        sentence = f"{model.spec}: no answer within {seconds:g} s; try again"
        raise ModelError(ModelErrorKind.TIMEOUT, sentence, spec=model.spec) from None
    line = " ".join(printable(text).split())
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}…"

"""The error table: what every protocol's failures mean, as `ModelError` with words for people.

What it reads: HTTP answers, error objects in the middle of a stream, exceptions of the HTTP client. Texts are matched
where servers have no codes; they are the providers' own wordings as documented or seen in 2026. No message holds a key
or a header: of the server's words only the first line is kept, and none of an answer about keys.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import orjson

from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.base import ModelEvent, TextDelta

KINDS = ModelErrorKind

OVERFLOW = re.compile(
    "|".join(
        [
            r"prompt is too long",  # Anthropic, Fireworks
            r"exceeds? context limit",  # Anthropic: input and max_tokens together
            r"request_too_large",  # Anthropic: bytes
            r"context_length_exceeded",  # OpenAI and most of its kin
            r"maximum context length",  # OpenAI, OpenRouter, DeepSeek, Mistral, vLLM, llama-cpp-python
            r"exceeds? the (context|configured limit|maximum number of tokens)",  # OpenAI, Gemini
            r"input is too long",  # Bedrock behind gateways
            r"maximum prompt length",  # xAI
            r"(max_seq_len|maximum model length)",  # vLLM
            r"must be <=? ?\d+.{0,40}(inputs|max_new_tokens)|(inputs|max_new_tokens).{0,60}must be <=",  # Together, TGI
            r"reduce the length of (the|your)",  # Groq, Cerebras
            r"available context size|exceed_context_size|context size has been exceeded",  # llama.cpp
            r"greater than the context length|context the overflows",  # LM Studio
            r"exceeds? (the |its )?(maximum )?context (length|window)|exceeded max context",  # Ollama
            r"exceeded model token limit",  # Moonshot
            r"prompt exceeds max length",  # Z.ai
            r"too many tokens: ",  # Cohere
        ]
    ),
    re.IGNORECASE | re.DOTALL,
)
"""The prompt does not fit into the model's window."""
NO_CREDIT = re.compile(
    r"insufficient_quota|insufficient (credits?|balance|funds)|credit balance is too low|billing_error", re.IGNORECASE
)
"""Missing credit. Servers report it with 400, 402, 403 and 429; a retry is useless, another provider may answer."""
NO_MODEL = re.compile(r"model_not_found|model .{0,80}(does not exist|not found)|no endpoints found", re.IGNORECASE)
FILTERED = re.compile(r"content_policy_violation|content_filter|responsibleai|safety system", re.IGNORECASE)
"""The provider's filter refused the question itself."""
WRONG_KEY = re.compile(r"authentication_error|permission_error|invalid_api_key|incorrect api key", re.IGNORECASE)
BUSY = re.compile(r"overloaded|server busy|maximum pending requests|at capacity|loading model", re.IGNORECASE)

BY_STATUS = {
    401: KINDS.AUTH,
    402: KINDS.AUTH,
    403: KINDS.AUTH,
    404: KINDS.NOT_FOUND,
    408: KINDS.TIMEOUT,
    413: KINDS.OVERFLOW,
    429: KINDS.RATE,
    503: KINDS.OVERLOADED,
    504: KINDS.TIMEOUT,
    529: KINDS.OVERLOADED,
}
"""Meaning of an HTTP status without a better text; else 4xx is rejected and 5xx a fault of the server."""
BY_TYPE = {
    "api_error": KINDS.SERVER,
    "invalid_request_error": KINDS.REJECTED,
    "not_found_error": KINDS.NOT_FOUND,
    "rate_limit_error": KINDS.RATE,
    "rate_limit_exceeded": KINDS.RATE,
    "server_error": KINDS.SERVER,
    "timeout_error": KINDS.TIMEOUT,
}
"""The same for the `type` or `code` of an error object without a status."""

SENTENCES = {
    KINDS.OVERFLOW: "the conversation is longer than the model's window",
    KINDS.RATE: "too many requests; the provider asks to wait",
    KINDS.OVERLOADED: "the provider is overloaded; try again in a moment",
    KINDS.SERVER: "the provider has trouble of its own; try again in a moment",
    KINDS.NETWORK: "the server cannot be reached; check the network and the provider's base_url",
    KINDS.TIMEOUT: "the server stayed silent for too long; try again",
    KINDS.TRUNCATED: "the answer broke off before its end; try again",
    KINDS.AUTH: "the provider refused the key; check the key (`providers.<name>.api_key` or its variable)",
    KINDS.NOT_FOUND: "the provider does not know this model; check its name in `models.agent`",
    KINDS.REJECTED: "the provider rejected the request",
    KINDS.REFUSED: "the provider's filter refused the question",
}
"""Cause and remedy, in words for people."""
NO_CREDIT_SENTENCE = "the account has no credit left; top it up or name another model in `models.agent`"
MOVED_SENTENCE = (
    "the server sends us to another address, which is not followed because the key would go along; set the provider's "
    "base_url to that address if it is the right one"
)
WORDS_LIMIT = 300
"""Characters of the server's own words that a message quotes."""
SECRET = re.compile(r"\b(sk|gsk|xai|key|pk|AIza)[-_\w*.]{6,}|Bearer\s+\S+", re.IGNORECASE)


def fail(
    kind: ModelErrorKind, spec: str, words: str = "", *, sentence: str = "", retry_after: float | None = None
) -> ModelError:
    """Return the error of that kind for the model `spec`, quoting the server's `words` unless they are about keys."""
    message = f"{spec}: {sentence or SENTENCES[kind]}"
    quoted = quote(words)
    if quoted and kind is not KINDS.AUTH:
        message = f"{message} ({quoted})"
    return ModelError(kind, message, spec=spec, retry_after=retry_after)


def from_response(spec: str, status: int, body: bytes, headers: Mapping[str, str], now: float) -> ModelError:
    """Return the error of an unsuccessful HTTP answer. `now` in epoch seconds, for dates in `Retry-After`."""
    return classify(spec, body.decode("utf-8", "replace"), words_of(body), status, retry_after(headers, now))


def from_object(spec: str, error: Any) -> ModelError:
    """Return the error object that a server sent in the middle of a stream."""
    text = orjson.dumps(error).decode()
    fields: dict[str, Any] = error if isinstance(error, dict) else {}
    code = fields.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else None
    named = next((BY_TYPE[str(fields[key])] for key in ("code", "type") if str(fields.get(key)) in BY_TYPE), None)
    return classify(spec, text, words_of(orjson.dumps({"error": error})), status, None, named)


def classify(
    spec: str,
    text: str,
    words: str,
    status: int | None,
    wait: float | None,
    named: ModelErrorKind | None = None,
) -> ModelError:
    """Decide by the text first, for statuses are used loosely, then by the type's name, then by the status."""
    if status is not None and status < 400:
        return fail(KINDS.NOT_FOUND, spec, sentence=MOVED_SENTENCE)
    if NO_CREDIT.search(text):
        return fail(KINDS.AUTH, spec, sentence=NO_CREDIT_SENTENCE)
    # A rate limit on tokens speaks of lengths, too, and passes by waiting.
    if status != 429 and OVERFLOW.search(text):
        return fail(KINDS.OVERFLOW, spec, words)
    for pattern, kind in ((WRONG_KEY, KINDS.AUTH), (NO_MODEL, KINDS.NOT_FOUND), (FILTERED, KINDS.REFUSED)):
        if pattern.search(text) and (status is None or 400 <= status < 500):
            return fail(kind, spec, words)
    if BUSY.search(text) and named is not KINDS.RATE and status not in (401, 402, 403, 404):
        return fail(KINDS.OVERLOADED, spec, words, retry_after=wait)
    return fail(named or by_status(status), spec, words, retry_after=wait)


def by_status(status: int | None) -> ModelErrorKind:
    """Return the meaning of a status alone; None is a fault of the server."""
    if status is None:
        return KINDS.SERVER
    return BY_STATUS.get(status, KINDS.REJECTED if status < 500 else KINDS.SERVER)


def words_of(body: bytes) -> str:
    """Return the message of an error body of any protocol; else the body's beginning."""
    try:
        found: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body[: 4 * WORDS_LIMIT].decode("utf-8", "replace")
    if isinstance(found, list) and found:
        found = found[0]
    for key in ("error", "message", "detail"):
        if isinstance(found, dict) and key in found:
            found = found[key]
    return found if isinstance(found, str) else orjson.dumps(found).decode()


def quote(words: str) -> str:
    """Return the first line, short, without anything that looks like a key."""
    line = words.strip().partition("\n")[0]
    return SECRET.sub("…", line)[:WORDS_LIMIT].rstrip(". ")


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the wait in seconds that the server asks for, by `retry-after-ms` or `Retry-After` (seconds or a date)."""
    found = {name.lower(): value.strip() for name, value in headers.items()}
    try:
        if "retry-after-ms" in found:
            return max(0.0, float(found["retry-after-ms"]) / 1_000)
        return max(0.0, float(found["retry-after"]))
    except KeyError:
        return None
    except ValueError:
        pass  # a date
    try:
        return max(0.0, parsedate_to_datetime(found["retry-after"]).timestamp() - now)
    except (KeyError, ValueError):
        return None


def piece_of_text(given: object) -> str:
    """Return a piece of an answer's text. Raises TypeError for other types (`reading`: a broken-off answer)."""
    if not isinstance(given, str):
        raise TypeError(f"a piece of text is {type(given).__name__}")
    return given


@contextmanager
def connecting(spec: str) -> Iterator[None]:
    """Turn what the HTTP client raises before an answer began into `ModelError`."""
    try:
        yield
    except TimeoutError as error:
        raise fail(KINDS.TIMEOUT, spec) from error
    except (aiohttp.ClientError, OSError) as error:
        raise fail(KINDS.NETWORK, spec, type(error).__name__) from error


@contextmanager
def reading(spec: str) -> Iterator[None]:
    """Convert errors while an answer is read; unreadable data count as an answer that broke off."""
    try:
        yield
    except TimeoutError as error:
        raise fail(KINDS.TIMEOUT, spec) from error
    except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
        raise fail(KINDS.TRUNCATED, spec, "connection lost") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        # No JSON, or JSON of a shape that the protocol does not have.
        raise fail(KINDS.TRUNCATED, spec, "unreadable data in the stream") from error


async def flagged(events: AsyncGenerator[ModelEvent, None]) -> AsyncGenerator[ModelEvent, None]:
    """Pass events on; a `ModelError` among them knows whether text had been streamed before."""
    shown = False
    try:
        async with aclosing(events):
            async for event in events:
                shown = shown or isinstance(event, TextDelta)
                yield event
    except ModelError as error:
        error.partial = shown
        raise

"""The error table: what every protocol's failures mean, as `ModelError` with words for people.

It reads HTTP answers, error objects in the middle of a stream, exceptions of the HTTP client. Texts are matched
where servers have no codes (`server_words`). No message holds a key or a header: of the server's words only the first
line is quoted, and none of an answer about keys.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import orjson

from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.base import ModelEvent, TextDelta
from goclaw.llm.server_words import (
    MESSAGE_FIELDS,
    daily_limit,
    is_overflow,
    is_page,
    output_limit_refused,
    page_title,
    quote,
    wait_in,
    window_in,
    words_of,
)

KINDS = ModelErrorKind

NO_CREDIT = re.compile(
    r"insufficient_quota|insufficient (credits?|balance|funds)|credit balance is too low|billing_error", re.IGNORECASE
)
"""Missing credit. Servers report it with 400, 402, 403 and 429; a retry is useless, another provider may answer."""
NO_MODEL = re.compile(r"model_not_found|model .{0,80}(does not exist|not found)|no endpoints found", re.IGNORECASE)
FILTERED = re.compile(r"content_policy_violation|content_filter|responsibleai|safety system", re.IGNORECASE)
"""The provider's filter refused the question itself."""
WRONG_KEY = re.compile(r"authentication_error|permission_error|invalid_api_key|incorrect api key", re.IGNORECASE)
BUSY = re.compile(r"overloaded|server busy|maximum pending requests|at capacity", re.IGNORECASE)
LOADS = re.compile(r"loading model|(model|it) is .{0,20}loading|still loading|加载", re.IGNORECASE)
"""The server has not finished to load the model: llama.cpp, Hugging Face, KoboldCpp."""

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
BY_NAME = (
    (re.compile(r"rate.?limit|resource.?exhausted", re.IGNORECASE), KINDS.RATE),
    (re.compile(r"overloaded|unavailable", re.IGNORECASE), KINDS.OVERLOADED),
    (re.compile(r"not.?found", re.IGNORECASE), KINDS.NOT_FOUND),
    (re.compile(r"time.?out", re.IGNORECASE), KINDS.TIMEOUT),
    (re.compile(r"bad.?request|invalid|unprocessable|validation", re.IGNORECASE), KINDS.REJECTED),
    (re.compile(r"server|internal|api_error", re.IGNORECASE), KINDS.SERVER),
)
"""The same for the name of an error object without a status, such as `BadRequestError`."""
NAME_FIELDS = ("code", "type", "error_type", "status")
STATUS_FIELDS = ("code", "status", "status_code")

SENTENCES = {
    KINDS.OVERFLOW: "the conversation is longer than the model's window",
    KINDS.RATE: "too many requests; the provider asks to wait",
    KINDS.OVERLOADED: "the provider is overloaded; try again in a moment",
    KINDS.LOADING: "the server is loading the model; try again in a moment",
    KINDS.SERVER: "the provider has an internal problem; try again in a moment",
    KINDS.NETWORK: "the server cannot be reached; check the network and the provider's base_url",
    KINDS.TIMEOUT: "the server stayed silent for too long; try again",
    KINDS.TRUNCATED: "the connection broke before the end of the answer; try again",
    KINDS.AUTH: "the provider refused the key; check the key (`providers.<name>.api_key` or its variable)",
    KINDS.NOT_FOUND: "the provider does not know this model; check its name in `models.agent`",
    KINDS.REJECTED: "the provider rejected the request",
    KINDS.REFUSED: "the provider's filter refused the question",
}
"""Cause and remedy, in words for people."""
NO_CREDIT_SENTENCE = "the account has no credit left; top it up or name another model in `models.agent`"
MOVED_SENTENCE = (
    "the server redirects to another address, which would receive your key, so GoClaw does not follow; set the "
    "provider's base_url to that address if it is correct"
)
OUTPUT_SENTENCE = "the model does not support such long answers; set `models.options.{spec}.max_output` to its limit"
PAGE_SENTENCE = "the server returned a web page instead of an answer; check the provider's base_url"
ERROR_LINE = "error: "
"""The prefix of an error line of older llama.cpp servers; it is no field of an event."""
UNREADABLE = "unreadable data in the stream"
BODY_LIMIT = 4_096
"""Characters of a server's error that are kept for rules that read them."""


def fail(
    kind: ModelErrorKind,
    spec: str,
    words: str = "",
    *,
    sentence: str = "",
    retry_after: float | None = None,
    accepted: bool = False,
) -> ModelError:
    """Return the error of that kind for the model `spec`, quoting the server's `words` unless they are about keys.

    `accepted`: the server had begun an answer, which may be billed.
    """
    message = f"{spec}: {sentence or SENTENCES[kind]}"
    quoted = quote(words)
    if quoted and kind is not KINDS.AUTH:
        message = f"{message} ({quoted})"
    return ModelError(kind, message, spec=spec, retry_after=retry_after, accepted=accepted)


def from_response(spec: str, status: int, body: bytes, headers: Mapping[str, str], now: float) -> ModelError:
    """Return the error of an unsuccessful HTTP answer. `now` in epoch seconds, for dates and daily limits."""
    text = body.decode("utf-8", "replace")
    wait = retry_after(headers, now)
    error = classify(spec, text, words_of(body), status, wait)
    if error.kind is KINDS.RATE and (limit := daily_limit(text, error.retry_after, headers, now)):
        when = f"{limit.ends_at:%H:%M} UTC on {limit.ends_at:%-d %B}"
        end = f"it ends at {when}" if limit.named else f"such limits usually end at {when}"
        sentence = f"the provider's daily limit is reached; {end}"
        wait = max(0.0, limit.ends_at.timestamp() - now)
        error = fail(KINDS.RATE, spec, words_of(body), sentence=sentence, retry_after=wait)
    error.status, error.body = status, text[:BODY_LIMIT]
    return error


def from_object(spec: str, error: Any) -> ModelError:
    """Return the error object that a server sent in the place of a part of an answer, or of all of it."""
    text = orjson.dumps(error).decode()
    fields: dict[str, Any] = error if isinstance(error, dict) else {}
    status = next((code for name in STATUS_FIELDS if (code := _status(fields.get(name)))), None)
    names = [name for key in NAME_FIELDS if isinstance(name := fields.get(key), str)]
    named = next((kind for name in names for pattern, kind in BY_NAME if pattern.search(name)), None)
    found = classify(spec, text, words_of(orjson.dumps({"error": error})), status, None, named)
    found.status, found.body, found.accepted = status, text[:BODY_LIMIT], True
    return found


def from_text(spec: str, text: str) -> ModelError:
    """Return the error for a server's reply in place of an answer that is no object: words, a web page."""
    if is_page(text):
        return fail(KINDS.NOT_FOUND, spec, page_title(text), sentence=PAGE_SENTENCE, accepted=True)
    found = classify(spec, text, text, None, None, KINDS.REJECTED)
    found.body, found.accepted = text[:BODY_LIMIT], True
    return found


def parse_object(spec: str, data: bytes) -> dict[str, Any]:
    """Return the object that a server sent in place of a stream.

    Raises:
        ModelError: the server sent an error message or a web page instead.
    """
    text = data.decode("utf-8", "replace").strip().removeprefix(ERROR_LINE)
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise from_text(spec, text) from None
    if not isinstance(found, dict):
        raise from_object(spec, found)
    return found


def error_in(found: Mapping[str, Any]) -> Any:
    """Return the error that an object of a stream is or has; None: it is a part of an answer.

    Besides `{"error": …}` there are `{"object": "error", "message": …}` (vLLM, SGLang) and objects without choices that
    have a message under another name.
    """
    if found.get("error"):
        return found["error"]
    if found.get("object") == "error" or (not found.get("choices") and any(found.get(key) for key in MESSAGE_FIELDS)):
        return found
    return None


def _status(code: object) -> int | None:
    number = int(code) if isinstance(code, str) and code.isdecimal() else code
    return number if isinstance(number, int) and 400 <= number < 600 else None


def classify(
    spec: str, text: str, words: str, status: int | None, wait: float | None, named: ModelErrorKind | None = None
) -> ModelError:
    """Decide by the text first, for statuses are used loosely, then by the type's name, then by the status."""
    if status is not None and status < 400:
        return fail(KINDS.NOT_FOUND, spec, sentence=MOVED_SENTENCE)
    if NO_CREDIT.search(text):
        return fail(KINDS.AUTH, spec, sentence=NO_CREDIT_SENTENCE)
    if is_overflow(status, text, of_rate=named is KINDS.RATE):
        error = fail(KINDS.OVERFLOW, spec, words)
        error.window = window_in(text)
        return error
    if output_limit_refused(text):
        return fail(KINDS.REJECTED, spec, words, sentence=OUTPUT_SENTENCE.format(spec=spec))
    for pattern, kind in ((WRONG_KEY, KINDS.AUTH), (NO_MODEL, KINDS.NOT_FOUND), (FILTERED, KINDS.REFUSED)):
        if pattern.search(text) and (status is None or 400 <= status < 500):
            return fail(kind, spec, words)
    wait = wait if wait is not None else wait_in(text)
    if LOADS.search(text) and (status is None or status >= 500):
        return fail(KINDS.LOADING, spec, words, retry_after=wait)
    if BUSY.search(text) and named is not KINDS.RATE and status not in (401, 402, 403, 404):
        return fail(KINDS.OVERLOADED, spec, words, retry_after=wait)
    usual = KINDS.REJECTED if status is not None and status < 500 else KINDS.SERVER
    return fail(named or BY_STATUS.get(status or 0, usual), spec, words, retry_after=wait)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the wait in seconds that the server asks for, by `retry-after-ms` or `Retry-After` (seconds or a date)."""
    found = {name.lower(): value.strip() for name, value in headers.items()}
    with suppress(KeyError, ValueError):
        if "retry-after-ms" in found:
            return max(0.0, float(found["retry-after-ms"]) / 1_000)
        return max(0.0, float(found["retry-after"]))
    with suppress(KeyError, ValueError):
        return max(0.0, parsedate_to_datetime(found["retry-after"]).timestamp() - now)
    return None


def piece_of_text(given: object) -> str:
    """Return a piece of an answer's text. Raises TypeError for other types (`reading`: a broken-off answer)."""
    if not isinstance(given, str):
        raise TypeError(f"a piece of text is {type(given).__name__}")
    return given


@contextmanager
def connecting(spec: str) -> Iterator[None]:
    """Turn errors of the HTTP client before an answer began into `ModelError`."""
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
        raise fail(KINDS.TRUNCATED, spec, "connection lost", accepted=True) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        # No JSON, or JSON of a shape that the protocol does not have.
        raise fail(KINDS.TRUNCATED, spec, UNREADABLE, accepted=True) from error


async def flag_errors(events: AsyncGenerator[ModelEvent, None]) -> AsyncGenerator[ModelEvent, None]:
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

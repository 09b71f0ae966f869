"""Reads a server's error: its message, an overflow, the window it names, a wait, a refused field.

Servers have no codes for these. The rules read for what every wording has in common, in English and Chinese, in place
of a list of wordings that is never complete; the wordings of some forty servers are in the tests.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from goclaw.common.core.records import record

WORDS_LIMIT = 300
"""Characters of the server's own words that a message quotes."""
SECRET = re.compile(r"\b(sk|gsk|xai|key|pk|AIza)[-_\w*.]{6,}|Bearer\s+\S+", re.IGNORECASE)
MARKUP = re.compile(r"\s*<(!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
"""The beginning of a web page."""
TITLE = re.compile(r"<(title|h1)[^>]*>\s*([^<]{1,120}?)\s*</", re.IGNORECASE)
TAG = re.compile(r"<[^>]*>")
PAGE_WORDS = 120
"""Characters of a web page without a title that are quoted."""
MESSAGE_FIELDS = ("error", "error_message", "message", "detail", "msg")


def words_of(body: bytes) -> str:
    """Return the message of an error body of any protocol; else the body's beginning, of a web page its title."""
    try:
        found: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body[: 16 * WORDS_LIMIT].decode("utf-8", "replace")
        return page_title(text) if is_page(text) else text[: 4 * WORDS_LIMIT]
    if isinstance(found, list) and found:
        found = found[0]
    for key in MESSAGE_FIELDS:
        if isinstance(found, dict) and found.get(key):
            found = found[key]
    return found if isinstance(found, str) else orjson.dumps(found).decode()


def is_page(text: str) -> bool:
    """Whether a text is a web page."""
    return MARKUP.match(text) is not None


def page_title(text: str) -> str:
    """Return one line in place of a web page."""
    found = TITLE.search(text)
    line = found[2] if found else " ".join(TAG.sub(" ", text).split())[:PAGE_WORDS]
    return f"a web page: {line}" if line else "a web page"


def quote(words: str) -> str:
    """Return the first line, short, without anything that looks like a key."""
    line = words.strip().partition("\n")[0]
    return SECRET.sub("…", line)[:WORDS_LIMIT].rstrip(". ")


NEAR = 80
"""Characters between a word for the size and a word for too much of it."""
SIZES = r"tokens?|context|length|prompt|n_ctx|max_seq_len|上下文|令牌|长度|输入|提示"
SURE_SIZES = r"context|prompt|n_ctx|上下文"
"""In an answer that a status or a type calls something else than a wrong request."""
TOO_MUCH = (
    r"exceed|limit|maximum|longer|too (long|large|many|big)|greater than|larger than|less than|at most|reduce|overflow"
    r"|truncate|\bmax\b|range of|>|<=|超|最大|过长|太长|上限|限制|大于"
)
OVERFLOW, SURE_OVERFLOW = (
    re.compile(f"({sizes}).{{0,{NEAR}}}?({TOO_MUCH})|({TOO_MUCH}).{{0,{NEAR}}}?({sizes})", re.IGNORECASE | re.DOTALL)
    for sizes in (SIZES, SURE_SIZES)
)
INPUT = re.compile(
    r"inputs?\b.{0,40}?(exceed|too (long|large|many|big)|longer|maximum)|exceed.{0,40}?\binputs?\b", re.IGNORECASE
)
OF_THE_PROMPT = re.compile(r"token|context|prompt|n_ctx|上下文", re.IGNORECASE)
OF_OTHERS = re.compile(
    r"character|string|array|input should|\bname\b|description|stop sequence|temperature|image|picture|\bfile\b",
    re.IGNORECASE,
)
"""Things with a length of their own, in words that say nothing of the prompt."""
PER_TIME = re.compile(r"per.{0,3}(second|min|hour|day)|rate.{0,3}limit|[tr]p[md]\b", re.IGNORECASE)
"""A rate limit. Waiting helps, unless a single request is too large for it."""
TOO_LARGE = re.compile(r"too large|过大", re.IGNORECASE)
WRONG_REQUEST = frozenset({400, 413, 422})


def is_overflow(status: int | None, text: str, *, of_rate: bool = False) -> bool:
    """Whether a refusal says that the prompt does not fit.

    Args:
        status: of the HTTP answer, or that an error object names; None: unknown.
        text: the server's whole reply.
        of_rate: the type of the error is that of a rate limit.
    """
    if status == 413:
        return True
    if output_limit_refused(text) or (OF_OTHERS.search(text) and not OF_THE_PROMPT.search(text)):
        return False
    if status == 429 or of_rate or PER_TIME.search(text):
        return status in (None, 429, *WRONG_REQUEST) and bool(TOO_LARGE.search(text) and OVERFLOW.search(text))
    if status is None or status in WRONG_REQUEST:
        return bool(OVERFLOW.search(text) or INPUT.search(text))
    return status == 500 and bool(SURE_OVERFLOW.search(text))


NUMBER = r"(\d{1,3}(?:,\d{3})+|\d+)"
CERTAIN_WINDOWS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf'"n_ctx"\s*:\s*{NUMBER}',  # llama.cpp
        rf"\d.{{0,20}}?>=?\s*\D{{0,20}}{NUMBER}",  # "205000 tokens > 200000", "n_keep (9012) >= n_ctx (4096)"
        rf"\[\s*\d+\s*,\s*{NUMBER}\s*\]",  # "should be [1, 129024]"
        rf"token limit\D{{0,10}}{NUMBER}",
    )
)
"""Forms in which a refusal names the window that can mean nothing else."""
WINDOWS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"<=?\s*{NUMBER}",
        rf"(?:cannot exceed|less than|at most|longer than|larger than|greater than|超过|大于)[^.\d]{{0,60}}{NUMBER}",
        rf"(?:maximum|max|limit|context (?:length|size|window)|上限|最大)[^.\d]{{0,60}}{NUMBER}",
        rf"{NUMBER}\W{{0,3}}(?:tokens? )?(?:maximum|max)",
    )
)
"""Others, the most certain first."""
LEAST_WINDOW, MOST_WINDOW = 512, 20_000_000
"""Tokens of a window that are believed."""


def window_in(text: str) -> int | None:
    """Return the window in tokens that an overflow names; None: none that is certain.

    A number alone may be a code ("exceeds limit (2013)"): the excess has to be named next to it, or tokens.
    """
    for pattern in CERTAIN_WINDOWS:
        if (found := pattern.search(text)) and (window := _window(found)):
            return window
    numbers = list(_numbers(text))
    for pattern in WINDOWS:
        for found in pattern.finditer(text):
            counted = re.match(r"\W{0,3}tokens?\b", text[found.end() :], re.IGNORECASE)
            window = _window(found)
            if window and (counted or any(number > window for number in numbers)):
                return window
    return None


def _window(found: re.Match[str]) -> int | None:
    window = int(found[1].replace(",", ""))
    return window if LEAST_WINDOW <= window <= MOST_WINDOW else None


def _numbers(text: str) -> Iterator[int]:
    return (int(found.replace(",", "")) for found in re.findall(NUMBER, text))


OUTPUT_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_new_tokens", "max_tokens")
OUTPUT_LIMIT_REFUSED = re.compile(
    rf"({'|'.join(OUTPUT_LIMITS)})\W.{{0,60}}?(too large|too high|must be|less than|at most|exceed|maximum|>)",
    re.IGNORECASE | re.DOTALL,
)
WITH_THE_PROMPT = re.compile(r"context (length|limit|size)|\binputs?\b|prompt|messages", re.IGNORECASE)


def output_limit_refused(text: str) -> bool:
    """Whether a refusal is about the limit of the answer alone, which may be larger than the model's."""
    return bool(OUTPUT_LIMIT_REFUSED.search(text)) and not WITH_THE_PROMPT.search(text)


def output_limit_in(text: str, sent: int) -> int | None:
    """Return the largest limit below the one that was `sent` which a refusal of it names; None: it names none."""
    return max((number for number in _numbers(text) if 16 <= number < sent), default=None)


def refused_field(text: str, fields: Sequence[str]) -> str:
    """Return which of the `fields` of a request its refusal names; empty: none of them."""
    return next((name for name in fields if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)), "")


SPAN = re.compile(
    r"(?:in|after|within|for)\s+((?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|hours?|h|minutes?|mins?|m|seconds?|secs?|s)\s*)+)"
    r'|"(?:retryDelay|retry_after|retry-after|retry_after_seconds)"\s*:\s*"?(\d[\d.hms]*)',
    re.IGNORECASE,
)
"""`try again in 1m4.2s`, `after 30 seconds`, Google's `"retryDelay": "4s"`, `"retry_after": 5`."""
PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli[a-z]*|[hms][a-z]*)?", re.IGNORECASE)
UNITS = {"h": 3_600.0, "m": 60.0, "s": 1.0, "": 1.0}
DAILY = re.compile(r"per.{0,2}day|daily|\b[rt]pd\b|每[日天]|当[日天]", re.IGNORECASE)
RESET = re.compile(r'"x-ratelimit-reset[\w-]*"\s*:\s*"?(\d{10,13})', re.IGNORECASE)
"""Epoch seconds or milliseconds; OpenRouter has it in the body."""


def wait_in(text: str) -> float | None:
    """Return the seconds that a refusal asks to wait, in any of its forms; None: it names none."""
    found = SPAN.search(text)
    if found is None:
        return None
    seconds = 0.0
    for number, unit in PART.findall(found[1] or found[2]):
        small = unit.lower()
        seconds += float(number) * (0.001 if small.startswith(("ms", "milli")) else UNITS[small[:1]])
    return seconds


@record
class DailyLimit:
    """A limit of requests or tokens a day that is reached."""

    ends_at: datetime
    named: bool
    """The time stated by the server; else midnight UTC, when most counters restart."""


def daily_limit(text: str, wait: float | None, headers: Mapping[str, str], now: float) -> DailyLimit | None:
    """Return when a daily limit ends; None: the refusal is about something else.

    Args:
        text: the server's whole reply.
        wait: seconds that it asks for, where it does.
        headers: of its answer.
        now: in epoch seconds.
    """
    if not DAILY.search(text):
        return None
    at = datetime.fromtimestamp(now, UTC)
    if wait:
        return DailyLimit(at + timedelta(seconds=wait), named=True)
    reset = RESET.search(text + " ".join(f'"{name}": "{value}"' for name, value in headers.items()))
    if reset:
        stamp = int(reset[1])
        return DailyLimit(datetime.fromtimestamp(stamp / 1_000 if stamp > 10**11 else stamp, UTC), named=True)
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return DailyLimit(midnight, named=False)

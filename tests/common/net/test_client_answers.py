"""What servers answer: read to an end, and their words about trouble fit to be shown."""

import orjson
import pytest

from goclaw.common.core.redact import remember
from goclaw.common.net.client import MAX_ERROR, WORDS_LIMIT, parse_retry_after, quoted_error


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "no such\n model"}}, ": no such model"),
        ({"error": "no such model"}, ": no such model"),
        ({"detail": "no such model"}, ": no such model"),
        ({"message": "\x1b[2Jcleared"}, ": cleared"),
        ({"error": {"code": 7}}, ""),
        ({"error": None}, ""),
        (["no", "object"], ""),
    ],
)
def test_the_words_of_every_form_of_error_are_found_and_stand_in_a_line(body: object, said: str) -> None:
    assert quoted_error(orjson.dumps(body)) == said


def test_an_error_page_has_no_words_and_long_words_have_an_end() -> None:
    assert quoted_error(b"<html>502</html>") == quoted_error(b"") == ""
    assert len(quoted_error(orjson.dumps({"error": "x" * 1_000}))) == WORDS_LIMIT + len(": ")
    assert quoted_error(orjson.dumps({"error": "x" * MAX_ERROR})) == ""


def test_a_key_that_a_server_repeats_is_masked() -> None:
    remember("canary-key-of-an-answer-0815")
    assert "canary" not in quoted_error(orjson.dumps({"error": "wrong key canary-key-of-an-answer-0815"}))


@pytest.mark.parametrize(
    ("header", "seconds"), [("17", 17.0), ("0", 0.0), ("soon", None), ("-1", None), ("²", None), ("", None)]
)
def test_a_pause_is_what_is_said_in_seconds(header: str, seconds: float | None) -> None:
    assert parse_retry_after({"Retry-After": header}) == seconds

"""Secrets do not leave the process in words."""

import time

import pytest

from goclaw.redact import MASK, mask, remember

TOKEN = "123456789:" + "Aa0-_" * 7


@pytest.mark.promise("P-secrets-masked")
@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"token {TOKEN}.", f"token {MASK}."),
        (f"https://api.telegram.org/bot{TOKEN}/getMe", f"https://api.telegram.org/bot{MASK}/getMe"),
        (f"bot{TOKEN.replace(':', '%3A')}/", f"bot{MASK}/"),
        ("key sk-ant-api03-0123456789abcdef", f"key {MASK}"),
        ("Authorization: Bearer abcdefgh12345678", f"Authorization: {MASK}"),
        ("proxy http://user:pass@host:1/", f"proxy http://{MASK}@host:1/"),
        ("nothing at all", "nothing at all"),
        ("12:30:59 at https://host:1/x", "12:30:59 at https://host:1/x"),
        ("a task-risk-whatever-is-long-enough", "a task-risk-whatever-is-long-enough"),
        ("", ""),
    ],
)
def test_what_has_the_shape_of_a_token_is_masked_and_nothing_else(text: str, masked: str) -> None:
    assert mask(text) == masked


def test_remembered_secrets_are_masked_wherever_they_stand() -> None:
    remember("plain.secret+1")
    remember("plain.secret+1-and-longer")
    assert mask("xplain.secret+1y plain.secret+1-and-longer") == f"x{MASK}y {MASK}"
    assert mask("plainXsecret+1") == "plainXsecret+1"


def test_short_texts_are_not_remembered() -> None:
    remember("secret7")
    assert mask("secret7") == "secret7"


@pytest.mark.parametrize(
    "text",
    ["1" * 1_000_000, "://" * 300_000, "Bearer " * 100_000, "sk-" * 300_000, "5:" * 500_000, "1:a" * 300_000],
)
def test_no_text_takes_long(text: str) -> None:
    began = time.perf_counter()
    mask(text)
    assert time.perf_counter() - began < 2

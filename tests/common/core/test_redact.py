"""Secrets do not leave the process in words."""

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goclaw.common.core.redact import MASK, Masking, disguises, known_in, mask, mask_end, mask_known, remember, storable
from tests.canaries import FORMATTED, formatted

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
    [
        *("1" * 1_000_000, "://" * 300_000, "Bearer " * 100_000, "sk-" * 300_000, "5:" * 500_000, "1:a" * 300_000),
        *("](" * 300_000, "](<" * 200_000, "]((a" * 200_000, "&#45" * 200_000, "sk-*" * 200_000, "\x1b[" * 300_000),
    ],
)
@pytest.mark.timeout(60)  # with the square of the length each of them takes hours
def test_no_text_takes_more_than_time_in_its_length(text: str) -> None:
    assert len(mask(text)) <= len(text)


CANARY = 'cAnary/of+the "disguises" \u00e4 0123456789'


@pytest.mark.promise("P-secrets-masked")
@pytest.mark.parametrize("before", ["", "a", "ab", "key: "])
@pytest.mark.parametrize(
    "write",
    [
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
        lambda text: text.encode().hex(),
        lambda text: text.encode().hex().upper(),
        lambda text: quote(text, safe=""),
        lambda text: json.dumps(text)[1:-1],
        lambda text: text[::-1],
    ],
    ids=["base64", "urlsafe", "hex", "HEX", "url", "json", "reversed"],
)
def test_a_secret_that_is_written_in_another_way_is_masked(before: str, write: Callable[[str], str]) -> None:
    remember(CANARY)
    assert MASK in mask(f"<{write(before + CANARY)}>")
    assert not any(form in mask(f"<{write(before + CANARY + ' and more')}>") for form in disguises(CANARY))


def test_base64_in_lines_is_masked() -> None:
    remember(CANARY)
    written = base64.encodebytes(b"x" * 40 + CANARY.encode() + b"y" * 60).decode()
    assert MASK in mask(written) and MASK not in mask(base64.encodebytes(b"x" * 200).decode())


KEY = "sk-LK8957-a413c09d77be2f01"


@pytest.mark.promise("P-secrets-masked")
@pytest.mark.parametrize("way", FORMATTED)
def test_a_secret_that_only_rendering_would_make_whole_is_masked(way: str) -> None:
    remember(KEY)
    told = f"Your *key* is {formatted(KEY)[way]}, as_it_is & stays."
    shown = mask_known(told)
    assert shown.startswith("Your *key* is ") and shown.endswith(", as_it_is & stays.") and MASK in shown
    assert not known_in(shown) and "a413c09d77be2f01" not in shown
    for size in (1, 2, 3, 5, 7):
        streamed, masking = "", Masking()
        for at in range(0, len(told), size):
            streamed += masking.next(told[at : at + size])
            assert not streamed.replace(MASK, "").count("a413"), "not even a part of it"
        assert streamed == shown


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, len(KEY) - 1), st.sampled_from(["**", "`", "\\", "[", "](https://x.org)", "~~"])))
)
def test_no_marks_inside_a_secret_hide_it_whole_or_in_pieces(marks: list[tuple[int, str]]) -> None:
    remember(KEY)
    written = KEY
    for place, mark in sorted(marks, reverse=True):
        written = written[:place] + mark + written[place:]
    assert mask_known(f"it is {written}.") == f"it is {MASK}."
    masking = Masking()
    assert "".join(map(masking.next, f"it is {written}.")) + masking.rest() == f"it is {MASK}."


def test_marks_beside_a_secret_and_texts_that_only_resemble_one_stay() -> None:
    remember(KEY)
    remember("____--__")
    assert mask_known(f"**{KEY}** `{KEY}` [x](https://{KEY}@y)") == f"**{MASK}** `{MASK}` [x](https://{MASK}@y)"
    for text in ("sk-**LK8957**", "a_b_c -- __", "[a](b) & [c](d) &amp; \\*", "sk- LK8957-a413c09d77be2f01"):
        assert mask_known(text) == text


@pytest.mark.promise("P-secrets-masked")
def test_a_secret_in_pieces_is_never_shown() -> None:
    secret = "sk-canary-that-comes-in-pieces-0123"
    remember(secret)
    for size in range(1, 12):
        told, masking = f"the key is {secret}, keep it", Masking()
        shown = "".join(masking.next(told[at : at + size]) for at in range(0, len(told), size)) + masking.rest()
        assert shown == f"the key is {MASK}, keep it"
    masking = Masking()
    assert masking.next("sk-canar") + masking.next("ies sing") + masking.rest() == "sk-canaries sing"


def test_half_a_secret_at_a_cut_is_masked() -> None:
    remember("plain-canary-at-the-cut")
    assert mask_end("see plain-canary-at") == f"see {MASK}"
    assert mask_end("see plain") == "see plain"


def test_a_text_with_half_a_character_can_be_stored() -> None:
    assert storable("a\ud800b \U0001f600") == "a?b \U0001f600"
    assert storable("plain") == "plain"
    assert storable("a\0b") == "ab"

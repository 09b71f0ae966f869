"""From bytes to text, whatever the server says about them."""

import pytest

from goclaw.common.net.pages.fetching import decode, is_page, is_text, looks_binary

WORDS = "Grüße — 你好"


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        (WORDS.encode(), "utf-8", WORDS),
        (WORDS.encode(), "iso-8859-1", WORDS),
        (WORDS.encode(), "", WORDS),
        ("Grüße".encode("latin-1"), "utf-8", "Grüße"),
        ("“Grüße”".encode("cp1252"), "iso-8859-1", "“Grüße”"),
        ("Привет".encode("koi8-r"), "koi8-r", "Привет"),
        ("こんにちは".encode("shift_jis"), "Shift_JIS", "こんにちは"),
        ("こんにちは".encode("iso-2022-jp"), "iso-2022-jp", "こんにちは"),
        (WORDS.encode("utf-16"), "", WORDS),
        (WORDS.encode("utf-16-le"), "utf-16le", WORDS),
        (b"\xef\xbb\xbf" + WORDS.encode(), "", WORDS),
        (b'<meta charset="koi8-r">' + "Привет".encode("koi8-r"), "", '<meta charset="koi8-r">Привет'),
        (b"plain", "rot13", "plain"),
        (b"plain", "zlib_codec", "plain"),
        (b"plain", "no such thing", "plain"),
        (b"\x81\xff\xfe", "", "�ÿþ"),
    ],
)
def test_text_is_read_as_it_was_written(body: bytes, charset: str, text: str) -> None:
    assert decode(body, charset, page=True, cut=False) == text


def test_a_character_that_was_cut_in_half_spoils_nothing() -> None:
    assert decode("Grüß".encode()[:-1], "utf-8", page=False, cut=True) == "Grü"


def test_an_xml_says_how_it_is_written() -> None:
    body = '<?xml version="1.0" encoding="windows-1251"?><a>Привет</a>'.encode("cp1251")
    assert "Привет" in decode(body, "", page=False, cut=False)


@pytest.mark.parametrize(
    ("kind", "readable"),
    [("text/html", True), ("application/rss+xml", True), ("application/pdf", False), ("video/mp4", False)],
)
def test_text_is_told_by_its_type(kind: str, readable: bool) -> None:
    assert is_text(kind) is readable


def test_a_page_is_told_by_its_type_or_its_beginning() -> None:
    assert is_page("text/html", b"") and is_page("", b"\n<!-- x --><!DOCTYPE html>")
    assert not is_page("", b"plain") and not is_page("text/plain", b"<html>")


def test_what_holds_zeros_is_no_text_unless_its_characters_are_wide() -> None:
    assert looks_binary(b"a\0b", None)
    assert not looks_binary("ab".encode("utf-16"), None) and not looks_binary(b"a\0", "utf-16le")

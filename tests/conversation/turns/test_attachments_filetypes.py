"""What bytes are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.conversation.turns.attachments import sound_type, text_of
from goclaw.durable.store.blobs import image_type


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", None),
        (b"BM", None),
        (b"", None),
    ],
)
def test_pictures_are_known_by_their_first_bytes(data: bytes, mime: str | None) -> None:
    assert image_type(data) == mime


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (b"OggS", "audio/ogg"),
        (b"ID3\x03", "audio/mpeg"),
        (b"\x00\x00\x00 ftypM4A ", "audio/mp4"),
        (b"RIFF\x00\x00\x00\x00WAVE", "audio/wav"),
        (b"fLaC", "audio/flac"),
        (b"x", None),
    ],
)
def test_recordings_are_known_by_their_first_bytes(data: bytes, mime: str | None) -> None:
    assert sound_type(data) == mime


@pytest.mark.parametrize(
    ("data", "name", "text"),
    [
        (b"plain", "a.bin", "plain"),
        ("Käse 🧀".encode(), "a", "Käse 🧀"),
        ("Käse".encode("utf-8-sig"), "a.txt", "Käse"),
        ("Käse".encode("utf-16"), "a.txt", "Käse"),
        (b"\xfe\xff" + "Käse".encode("utf-16-be"), "a.txt", "Käse"),
        ("Käse".encode("utf-32"), "a.txt", "Käse"),
        ("Käse".encode("cp1252"), "a.csv", "Käse"),
        ("Käse".encode("cp1252"), "a.bin", None),
        (b"\xff\xfe\x00\xd8", "a.txt", None),  # half a character
        (b"colours \x1b[31m", "a.log", "colours \x1b[31m"),
        (b"", "a.txt", ""),
        (b"%PDF-1.7\x00", "a.txt", None),
        (b"PK\x03\x04", "a.md", None),
    ],
)
def test_text_is_what_can_be_read_as_text(data: bytes, name: str, text: str | None) -> None:
    assert text_of(data, name, "application/octet-stream") == text


def test_the_senders_word_decides_only_where_the_bytes_may_be_text() -> None:
    assert text_of("Käse".encode("cp1252"), "a", "text/plain") == "Käse"
    assert text_of(b"\x00\x01", "a.txt", "text/plain") is None


@given(st.binary(max_size=200), st.sampled_from(["a.txt", "a.bin"]))
def test_whatever_the_bytes_are_the_text_can_be_stored(data: bytes, name: str) -> None:
    text = text_of(data, name, "x/y")
    assert text is None or ("\0" not in text and text.encode().decode() == text)

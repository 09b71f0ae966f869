"""What is a picture that a model can look at, and what only begins like one."""

import struct

import pytest

from goclaw.common.core.pictures import fault_of
from goclaw.durable.store.blobs import image_type
from tests.picture_support import GIF, LOSSLESS, WEBP, jpeg, png

WHOLE = [png(), png(8_000, 3), jpeg(), jpeg(640, 480), GIF, WEBP, LOSSLESS]
EXTENDED = b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + b"\x0f\0\0\x0f\0\0"


def kind(data: bytes) -> str:
    return image_type(data) or ""


@pytest.mark.parametrize("data", [*WHOLE, EXTENDED])
def test_a_whole_picture_is_one(data: bytes) -> None:
    assert kind(data).startswith("image/") and fault_of(data, kind(data)) == ""


@pytest.mark.parametrize("data", WHOLE)
def test_a_picture_that_is_cut_off_is_none_and_no_beginning_of_one_is_an_exception(data: bytes) -> None:
    faults = [fault_of(data[:end], kind(data)) for end in range(12, len(data) - 1)]
    assert all(fault.startswith("it is damaged or cut off") for fault in faults)


@pytest.mark.parametrize("start", [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"GIF89a", b"RIFF\0\0\0\0WEBP"])
@pytest.mark.parametrize("rest", [b"", b"rest", b"\0" * 5_000, b"\xff" * 5_000, bytes(range(256)) * 20])
def test_what_begins_like_a_picture_and_is_none_is_found_out(start: bytes, rest: bytes) -> None:
    assert fault_of(start + rest, kind(start + rest))


def test_a_changed_byte_is_found_by_the_checksum() -> None:
    whole = png(30, 30)
    broken = bytearray(whole)
    broken[45] ^= 1
    assert fault_of(bytes(broken), "image/png").startswith("it is damaged")


def test_a_picture_that_would_be_huge_when_it_is_unpacked_is_not_taken() -> None:
    said = "it has 60,000 x 60,000 pixels, at most 8,000 on a side are taken; make it smaller"
    assert fault_of(png(60_000, 60_000), "image/png") == said
    assert fault_of(jpeg(60_000, 60_000), "image/jpeg") == said
    assert fault_of(png(0, 1), "image/png") == "it has no width or no height"
    assert fault_of(b"<svg/>", "image/svg+xml") == "models take no image/svg+xml"

"""Pictures lose place, camera and comments, and nothing of what is seen."""

import struct
import zlib

import pytest

from goclaw.common.core.picture_details import without_details
from goclaw.common.core.pictures import fault_of
from goclaw.durable.store.blobs import image_type
from tests.picture_support import GIF, LOSSLESS, WEBP, jpeg, png

SECRET = b"52.5163 N"


def exif(orientation: int, order: str = "<") -> bytes:
    """Exif with an orientation, between other fields."""
    fields = [
        (0x010F, 2, 4, b"Cam\0"),
        (0x0112, 3, 1, struct.pack(f"{order}HH", orientation, 0)),
        (0x8825, 4, 1, b"\0\0\0\x50"),
    ]
    body = b"".join(struct.pack(f"{order}HHI", *field[:3]) + field[3] for field in fields)
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}IH", 8, len(fields))
    return head + body + struct.pack(f"{order}I", 0) + SECRET


def segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def photo(orientation: int, order: str = "<") -> bytes:
    """A JPEG with Exif, XMP, a comment, another picture within, colours, and a film behind."""
    parts = segment(0xE1, b"Exif\0\0" + exif(orientation, order)) + segment(
        0xE1, b"http://ns.adobe.com/xap/1.0/\0" + SECRET
    )
    parts += segment(0xFE, SECRET) + segment(0xED, SECRET) + segment(0xE2, b"MPF\0" + SECRET)
    return b"\xff\xd8" + parts + segment(0xE2, b"ICC_PROFILE\0colours") + jpeg(40, 30)[2:] + b"film " + SECRET


def drawing(orientation: int) -> bytes:
    more = (
        chunk(b"tEXt", b"Comment\0" + SECRET)
        + chunk(b"iTXt", SECRET)
        + chunk(b"eXIf", exif(orientation))
        + chunk(b"gAMA", b"\0\0\0\1")
    )
    return png(4, 3)[:33] + more + png(4, 3)[33:] + SECRET


def web_picture(orientation: int) -> bytes:
    def part(name: bytes, body: bytes) -> bytes:
        return struct.pack("<4sI", name, len(body)) + body + b"\0" * (len(body) % 2)

    body = (
        part(b"VP8X", b"\x0c\0\0\0\0\0\0\0\0\0") + WEBP[12:] + part(b"EXIF", exif(orientation)) + part(b"XMP ", SECRET)
    )
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


MADE = {"image/jpeg": photo, "image/png": drawing, "image/webp": web_picture}


@pytest.mark.parametrize("mime", MADE)
@pytest.mark.parametrize("orientation", [1, 6, 8])
def test_details_go_and_what_is_seen_stays_with_the_mark_of_which_way_is_up(mime: str, orientation: int) -> None:
    whole = MADE[mime](orientation)
    clean, found = without_details(whole)
    assert SECRET in whole and SECRET not in clean and b"Cam" not in clean and found == orientation
    assert image_type(clean) == mime and fault_of(clean, mime) == ""
    assert without_details(clean) == (clean, orientation)
    seen = {
        "image/jpeg": (jpeg(40, 30)[jpeg().index(b"\xff\xda") :], b"colours"),
        "image/png": (png(4, 3)[33:], b"gAMA"),
    }
    assert all(part in clean for part in seen.get(mime, (WEBP[12:],)))
    assert (b"MM\0*" in clean) == (orientation != 1)


def test_the_order_of_bytes_in_exif_is_read() -> None:
    assert without_details(photo(3, ">"))[1] == 3


@pytest.mark.parametrize("data", [png(3, 3), GIF, WEBP, LOSSLESS])
def test_a_picture_without_details_comes_back_as_it_is(data: bytes) -> None:
    assert without_details(data) == (data, 1)


@pytest.mark.parametrize("mime", MADE)
def test_a_picture_that_is_cut_off_or_lies_about_its_parts_is_no_exception(mime: str) -> None:
    whole = MADE[mime](6)
    for at in range(12, len(whole)):
        assert SECRET not in without_details(whole[:at])[0]
        without_details(whole[:at] + b"\xff\xff\xff\xff" + whole[at + 4 :])
        without_details(whole[:at] + bytes(4) + whole[at + 4 :])


def test_a_picture_of_endless_parts_is_given_up_soon() -> None:
    endless = b"\xff\xd8" + segment(0xFE, b"") * 2_000_000
    assert without_details(endless) == (b"\xff\xd8\xff\xd9", 1)


def test_nothing_of_a_picture_goes_along_because_a_decoder_is_more_lenient() -> None:
    whole = photo(6)
    first = whole.index(b"\xff\xfe")
    torn = whole[:first] + b"\0\0" + whole[first:]  # between two parts
    assert without_details(torn) == without_details(whole)
    drawn = drawing(6)
    assert without_details(drawn[: drawn.index(b"IEND") - 4]) == without_details(drawn)
    unknown = segment(0xE5, b"Adobe" + SECRET) + segment(0xF0, SECRET)
    preview = segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\1\3" + SECRET)
    clean, _ = without_details(b"\xff\xd8" + preview + unknown + jpeg()[2:])
    assert clean == b"\xff\xd8" + segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0") + jpeg()[9:]

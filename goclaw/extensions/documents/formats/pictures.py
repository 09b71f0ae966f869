"""Pictures as models take them: turned as EXIF says, without place, camera and time, which come where asked for."""

import io
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from goclaw.common.core.document_kinds import DETAILS
from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted

_LONGEST = 1_600
_MAX_PIXELS = 100_000_000
"""Pixels of a picture: half a gigabyte of memory as it is unpacked."""


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Read a picture."""
    data = file.read()
    if data[4:8] == b"ftyp" and not data[8:12].startswith(b"avi"):
        data = _heic(data)
    try:
        from PIL import Image, ImageOps  # the extra `documents`
    except ModuleNotFoundError:
        raise Refused(
            "is a picture that takes the extra `documents` to be turned or converted (pip install 'goclaw[documents]')"
        ) from None
    Image.MAX_IMAGE_PIXELS = _MAX_PIXELS // 2  # twice that many are an error
    try:
        with Image.open(io.BytesIO(data)) as picture:
            width, height = picture.size
            if width * height > _MAX_PIXELS:
                raise Refused(f"is not opened: it has {width:,} by {height:,} pixels")
            answer.kind = f"{picture.format} picture of {width:,} by {height:,} pixels"
            if wanted.member == DETAILS:
                answer.add("\n".join(_details(picture.getexif())) or "[it says nothing of place, camera and time]")
                return
            turned = ImageOps.exif_transpose(picture)
            turned.thumbnail((_LONGEST, _LONGEST))
            sink = io.BytesIO()
            # A new picture: nothing of the old one's EXIF goes along.
            clean = Image.new("RGB", turned.size, "white")
            clean.paste(turned.convert("RGBA"), mask=turned.convert("RGBA").getchannel("A"))
            clean.save(sink, "JPEG", quality=88)
    except Image.DecompressionBombError:
        raise Refused("is not opened: it has too many pixels") from None
    except (OSError, ValueError, SyntaxError):
        raise Refused("is damaged, or no picture that can be read") from None
    answer.note("place, camera and time of the picture are not passed on")
    answer.pictures.append(("image/jpeg", sink.getvalue()))


def _details(exif: Any) -> Iterator[str]:
    """Yield what Exif says of camera, time and place (CIPA DC-008)."""
    camera, taken = exif.get_ifd(0x8769), exif.get_ifd(0x8825)
    known = {"camera": (exif.get(0x010F), exif.get(0x0110)), "lens": (camera.get(0xA434),)}
    known |= {"taken at": (camera.get(0x9003) or exif.get(0x0132), camera.get(0x9011)), "by": (exif.get(0x013B),)}
    for label, values in known.items():
        if text := " ".join(str(value) for value in values if value):
            yield f"{label}: {' '.join(text.split())[:200]}"
    try:
        south, west = str(taken.get(1, "")) == "S", str(taken.get(3, "")) == "W"
        latitude, longitude = (sum(float(part) / 60**at for at, part in enumerate(taken[tag])) for tag in (2, 4))
        yield f"place: {'-' if south else ''}{latitude:.6f}, {'-' if west else ''}{longitude:.6f} (latitude, longitude)"
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        pass  # it says no place, or none that there is


def _heic(data: bytes) -> bytes:
    """Return a HEIC picture as JPEG, by a program of the system."""
    program = shutil.which("heif-convert")
    if program is None:
        raise Refused("is a HEIC picture; with heif-convert installed (Debian: libheif-examples) it is converted")
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "a.heic"), Path(folder, "a.jpg")
        source.write_bytes(data)
        subprocess.run([program, str(source), str(made)], capture_output=True, check=False)
        if not made.exists():
            raise Refused("is damaged, or no HEIC picture that heif-convert reads")
        return made.read_bytes()

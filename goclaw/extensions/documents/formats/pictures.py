"""AVIF, TIFF, BMP and HEIC as a picture that models take: turned as EXIF says, without place, camera and all else."""

import io
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import BinaryIO

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
            "is a picture of a kind that models do not take; with the extra `documents` it is converted "
            "(pip install 'goclaw[documents]')"
        ) from None
    Image.MAX_IMAGE_PIXELS = _MAX_PIXELS // 2  # twice that many are an error
    try:
        with Image.open(io.BytesIO(data)) as picture:
            width, height = picture.size
            if width * height > _MAX_PIXELS:
                raise Refused(f"is not opened: it has {width:,} by {height:,} pixels")
            answer.kind = f"{picture.format} picture of {width:,} by {height:,} pixels"
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

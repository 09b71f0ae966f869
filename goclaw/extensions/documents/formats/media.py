"""Sound and film: length and size of the picture by their heads; pictures of a film by `ffmpeg` of the system."""

import io
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from goclaw.extensions.documents.formats.answer import MAX_PICTURES, Answer, Refused, Wanted

_LONGEST = 1_600
_MAX_PARTS = 10_000
_MAX_HEAD = 64 << 20
"""Bytes of an index that are read: hours of film."""
_RATES = {  # of MPEG audio, in kbit/s: version 1 and 2, layer 3
    3: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_SAMPLES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Read how long a recording is; with pages named, the pictures of a film at these seconds."""
    head = file.read(12)
    name, reader = next((name, reader) for mark, at, name, reader in _FORMATS if head[at : at + len(mark)] == mark)
    file.seek(0)
    try:
        seconds, width, height = reader(file)
    except (struct.error, ValueError, IndexError, ZeroDivisionError, OverflowError):
        seconds, width, height = 0.0, 0, 0
    answer.unit = "second"
    answer.total = round(seconds) if 0 < seconds < 1e7 else None
    is_film = bool(width and height)
    answer.kind = f"{name} {f'film of {width:,} by {height:,} pixels' if is_film else 'recording'}"
    if answer.total is None:
        answer.note("its length is not in it")
    if wanted.pages:
        _add_frames(file, list(wanted.numbers(answer.total or 1 << 20, "second"))[:MAX_PICTURES], answer)
    elif is_film and not shutil.which("ffmpeg"):
        answer.note("with ffmpeg installed, pages show its pictures at these seconds")
    elif is_film:
        last = answer.total or 1
        steps = ",".join(map(str, sorted({max(1, last * part // 8) for part in (1, 3, 5, 7)})))
        answer.rest = f'pages="{steps}" (its pictures at these seconds)'


def _add_frames(file: BinaryIO, seconds: list[int], answer: Answer) -> None:
    program = shutil.which("ffmpeg")
    if program is None:
        raise Refused("is a film or a recording; with ffmpeg installed its pictures are shown")
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder, "film")
        file.seek(0)
        with film.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        for second in seconds:
            command = [program, "-v", "error", "-nostdin", "-threads", "1", "-protocol_whitelist", "file,pipe"]
            command += ["-ss", str(second - 1), "-i", str(film), "-frames:v", "1", "-threads", "1"]
            command += ["-vf", f"scale='min({_LONGEST},iw)':-2", "-f", "image2pipe", "-c:v", "mjpeg", "pipe:1"]
            shown = subprocess.run(command, capture_output=True, check=False).stdout
            if shown:
                answer.pictures.append(("image/jpeg", shown))
                answer.shown.append(second)
    if not answer.pictures:
        raise Refused("has no pictures at these seconds that ffmpeg can read")
    answer.add(f"[pictures at second {', '.join(map(str, answer.shown))}]")


Found = tuple[float, int, int]
"""Seconds, width and height; 0: not known."""


def _chunks(file: BinaryIO, end: int, order: str) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, begin and size of the parts of a RIFF (<) or MP4 (>) file up to a place, where larger ones end."""
    at = file.tell()
    for _ in range(_MAX_PARTS):
        file.seek(at)
        head, begin = file.read(8), at + 8
        if len(head) < 8 or at >= end:
            return
        name, size = (
            (head[4:], int.from_bytes(head[:4], "big"))
            if order == ">"
            else (head[:4], int.from_bytes(head[4:], "little") + 8)
        )
        if order == ">" and size == 1:
            begin, size = at + 16, struct.unpack(">Q", file.read(8))[0]
        size = end - at if size == 0 else size
        if size < begin - at:
            return
        yield name, begin, min(at + size, end) - begin
        at += size + (size % 2 if order == "<" else 0)


def _size(file: BinaryIO) -> int:
    here = file.tell()
    size = file.seek(0, io.SEEK_END)
    file.seek(here)
    return size


def _wave(file: BinaryIO) -> Found:
    file.seek(12)
    rate = 0
    for name, begin, size in _chunks(file, _size(file), "<"):
        if name == b"fmt ":
            file.seek(begin + 8)
            (rate,) = struct.unpack("<I", file.read(4))
        elif name == b"data":
            return size / rate, 0, 0
    return 0, 0, 0


def _mp4(file: BinaryIO) -> Found:
    seconds, width, height = 0.0, 0, 0
    for name, begin, size in _chunks(file, _size(file), ">"):
        if name != b"moov" or size > _MAX_HEAD:
            continue
        file.seek(begin)
        for inner, start, length in _chunks(file, begin + size, ">"):
            file.seek(start)
            if inner == b"mvhd":
                seconds = _duration(file.read(32))
            elif inner == b"trak":
                for part, place, _ in _chunks(file, start + length, ">"):
                    if part == b"tkhd":
                        file.seek(place)
                        body = file.read(96)
                        wide, high = struct.unpack_from(">HxxH", body, 88 if body[0] else 76)
                        width, height = max(width, wide), max(height, high)
    return seconds, width, height


def _duration(body: bytes) -> float:
    """Return the seconds of a head of MP4, in its short or its long form."""
    scale, length = struct.unpack_from(">IQ" if body[0] else ">II", body, 20 if body[0] else 12)
    return float(length / scale)


def _avi(file: BinaryIO) -> Found:
    body = file.read(72)
    step, frames, width, height = (struct.unpack_from("<I", body, 32 + at)[0] for at in (0, 16, 32, 36))
    return step * frames / 1e6, width, height


def _flac(file: BinaryIO) -> Found:
    told = int.from_bytes(file.read(26)[18:], "big")
    return (told & (1 << 36) - 1) / (told >> 44), 0, 0


def _ogg(file: BinaryIO) -> Found:
    begin, size = file.read(60)[28:], _size(file)
    file.seek(max(0, size - (1 << 17)))
    end = file.read()
    (last,) = struct.unpack_from("<q", end, end.rindex(b"OggS") + 6)
    if begin.startswith(b"OpusHead"):
        return (last - struct.unpack_from("<H", begin, 10)[0]) / 48_000, 0, 0
    return last / struct.unpack_from("<I", begin, 12)[0] if begin.startswith(b"\x01vorbis") else 0, 0, 0


def _mp3(file: BinaryIO) -> Found:
    tag = file.read(10)
    begin = (
        sum(byte << shift for byte, shift in zip(tag[6:], (21, 14, 7, 0), strict=True)) + 10 if tag[:3] == b"ID3" else 0
    )
    file.seek(begin)
    body = file.read(1 << 14)
    match = re.search(rb"\xff[\xe2\xe3\xf2\xf3\xfa\xfb]..", body, re.DOTALL)
    if match is None:
        return 0, 0, 0
    (head,) = struct.unpack(">I", match[0])
    version = head >> 19 & 3
    rate, speed = _SAMPLES[version][head >> 10 & 3], _RATES[version | 2][head >> 12 & 15]
    counted = re.compile(rb"(?:Xing|Info)...[\x01\x03\x05\x07\x09\x0b\x0d\x0f](....)", re.DOTALL).search(
        body, match.start(), match.start() + 64
    )
    if counted:
        return int.from_bytes(counted[1], "big") * (1_152 if version == 3 else 576) / rate, 0, 0
    return (_size(file) - begin) / (speed * 125), 0, 0


def _matroska(file: BinaryIO) -> Found:
    found = {0x2AD7B1: 1_000_000.0, 0x4489: 0.0, 0xB0: 0.0, 0xBA: 0.0}
    for _ in range(_MAX_PARTS):
        name, size = _number(file, marked=True), _number(file)
        if name in (0, 0x1F43B675):  # the end, or the film itself
            break
        if name in (0x18538067, 0x1549A966, 0x1654AE6B, 0xAE, 0xE0):
            continue  # what is of interest lies within
        place = file.tell()
        if name in found and size <= 8:
            value = file.read(size)
            is_float = name == 0x4489
            found[name] = (
                struct.unpack(">f" if size == 4 else ">d", value)[0] if is_float else int.from_bytes(value, "big")
            )
        file.seek(place + size)
    scale, length, width, height = found.values()
    return length * scale / 1e9, int(width), int(height)


def _number(file: BinaryIO, *, marked: bool = False) -> int:
    """Return a number of EBML (RFC 8794), of a name with the mark of its length; 0: there is no more."""
    first = (file.read(1) or b"\0")[0]
    more = 8 - first.bit_length()
    value = int.from_bytes(bytes([first]) + file.read(more), "big")
    return value if marked or not first else value & (1 << 7 * (more + 1)) - 1


_FORMATS = (
    (b"WAVE", 8, "WAV", _wave),
    (b"AVI ", 8, "AVI", _avi),
    (b"ftyp", 4, "MP4", _mp4),
    (b"OggS", 0, "Ogg", _ogg),
    (b"fLaC", 0, "FLAC", _flac),
    (b"\x1aE\xdf\xa3", 0, "WebM", _matroska),
    (b"", 0, "MP3", _mp3),
)

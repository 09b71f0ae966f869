"""Sound and film: length and size of the picture by their heads; pictures of a film by `ffmpeg` of the system."""

import re
import shutil
import struct
import subprocess
import tempfile
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from goclaw.extensions.documents.formats.answer import MAX_PICTURES, Answer, Refused, Wanted

_LONGEST = 1_600
_RATES = (
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
)
_SAMPLES = (44_100, 48_000, 32_000)
"""Of MPEG audio, layer 3: kbit/s in versions 2 and 1, samples a second in version 1."""


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Read how long a recording is; with pages named, the pictures of a film at these seconds."""
    data = file.read()
    name, reader = next((name, reader) for mark, at, name, reader in _FORMATS if data.startswith(mark, at))
    try:
        seconds, width, height = reader(data)
    except (struct.error, ValueError, IndexError, ZeroDivisionError, OverflowError):
        seconds, width, height = 0.0, 0, 0
    answer.unit = "second"
    answer.total = round(seconds) if 0 < seconds < 1e7 else None
    is_film = bool(width and height)
    answer.kind = f"{name} {f'film of {width:,} by {height:,} pixels' if is_film else 'recording'}"
    if answer.total is None:
        answer.note("its length is not in it")
    if wanted.pages:
        _add_frames(data, list(wanted.numbers(answer.total or 1 << 20, "second"))[:MAX_PICTURES], answer)
    elif is_film and not shutil.which("ffmpeg"):
        answer.note("with ffmpeg installed, pages show its pictures at these seconds")
    elif is_film:
        last = answer.total or 1
        steps = ",".join(map(str, sorted({max(1, last * part // 8) for part in (1, 3, 5, 7)})))
        answer.rest = f'pages="{steps}" (its pictures at these seconds)'


def _add_frames(data: bytes, seconds: list[int], answer: Answer) -> None:
    program = shutil.which("ffmpeg")
    if program is None:
        raise Refused("is a film or a recording; with ffmpeg installed its pictures are shown")
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder, "film")
        film.write_bytes(data)
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
"""Seconds, width and height; 0: not known. They are found by their marks, since parts may claim any size."""


def _wave(data: bytes) -> Found:
    (rate,) = struct.unpack_from("<I", data, data.index(b"fmt ") + 16)
    return struct.unpack_from("<I", data, data.index(b"data") + 4)[0] / rate, 0, 0


def _mp4(data: bytes) -> Found:
    width, height = 0, 0
    for track in islice(re.finditer(rb"\0\0\0[\x5c\x68]tkhd(.)", data, re.DOTALL), 100):
        wide, high = struct.unpack_from(">HxxH", data, track.start(1) + (88 if track[1] == b"\1" else 76))
        width, height = max(width, wide), max(height, high)
    head = re.search(rb"\0\0\0[\x6c\x78]mvhd(.)", data, re.DOTALL)
    if head is None:
        return 0, width, height
    is_long = head[1] == b"\1"
    scale, length = struct.unpack_from(">IQ" if is_long else ">II", data, head.start(1) + (20 if is_long else 12))
    return length / scale, width, height


def _avi(data: bytes) -> Found:
    step, frames, width, height = (struct.unpack_from("<I", data, 32 + at)[0] for at in (0, 16, 32, 36))
    return step * frames / 1e6, width, height


def _flac(data: bytes) -> Found:
    told = int.from_bytes(data[18:26], "big")
    return (told & (1 << 36) - 1) / (told >> 44), 0, 0


def _ogg(data: bytes) -> Found:
    (last,) = struct.unpack_from("<q", data, data.rindex(b"OggS") + 6)
    if data.startswith(b"OpusHead", 28):
        return (last - struct.unpack_from("<H", data, 38)[0]) / 48_000, 0, 0
    return last / struct.unpack_from("<I", data, 40)[0] if data.startswith(b"\x01vorbis", 28) else 0, 0, 0


def _mp3(data: bytes) -> Found:
    begin = 10 + sum((data[9 - at] & 127) << 7 * at for at in range(4)) if data.startswith(b"ID3") else 0
    frame = re.compile(rb"\xff[\xf2\xf3\xfa\xfb]..", re.DOTALL).search(data, begin, begin + (1 << 14))
    if frame is None:
        return 0, 0, 0
    is_first, speed, rate = frame[0][1] >= 0xFA, frame[0][2] >> 4, frame[0][2] >> 2 & 3
    counted = re.compile(rb"(?:Xing|Info)...[\x01-\x0f](....)", re.DOTALL).search(
        data, frame.start(), frame.start() + 64
    )
    if counted:
        # In version 2 a frame has half as many samples, at half the rate.
        return int.from_bytes(counted[1], "big") * 1_152 / _SAMPLES[rate], 0, 0
    return (len(data) - begin) / (_RATES[is_first][speed] * 125), 0, 0


def _matroska(data: bytes) -> Found:
    head = data[: 1 << 16]
    length, scale, size = (re.search(each, head, re.DOTALL) for each in (_LENGTH, _SCALE, _SIZE))
    width, height = (int.from_bytes(each, "big") for each in size.groups() if each) if size else (0, 0)
    ticks = length[1] or length[2] if length else bytes(4)
    seconds = struct.unpack(">f" if len(ticks) == 4 else ">d", ticks)[0] / 1e9
    return seconds * (int.from_bytes(scale[1], "big") if scale else 1_000_000), width, height


_LENGTH, _SCALE = rb"\x44\x89(?:\x84(.{4})|\x88(.{8}))", rb"\x2a\xd7\xb1\x83(...)"
_SIZE = rb"\xb0(?:\x81(.)|\x82(..))\xba(?:\x81(.)|\x82(..))"
"""In heads of EBML (RFC 8794): the length in ticks, nanoseconds of a tick, width and height."""
_FORMATS = (
    (b"WAVE", 8, "WAV", _wave),
    (b"AVI ", 8, "AVI", _avi),
    (b"ftyp", 4, "MP4", _mp4),
    (b"OggS", 0, "Ogg", _ogg),
    (b"fLaC", 0, "FLAC", _flac),
    (b"\x1aE\xdf\xa3", 0, "WebM", _matroska),
    (b"", 0, "MP3", _mp3),
)

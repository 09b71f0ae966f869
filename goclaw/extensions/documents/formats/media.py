"""Sound and film: length and tracks, by `ffprobe` of the system."""

import json
import shutil
import subprocess
from typing import BinaryIO

from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Describe a recording."""
    program = shutil.which("ffprobe")
    if program is None:
        raise Refused("is a recording; with ffprobe installed (Debian: ffmpeg) its length is told")
    told = subprocess.run(
        [program, "-v", "error", "-of", "json", "-show_format", "-show_streams", "-i", "pipe:0"],
        stdin=file,
        capture_output=True,
        check=False,
    )
    try:
        facts = json.loads(told.stdout)
        streams, seconds = facts["streams"], float(facts["format"].get("duration", 0))
    except (ValueError, KeyError, TypeError):
        raise Refused("is damaged, or no recording that ffprobe knows") from None
    answer.kind = "film" if any(each.get("codec_type") == "video" for each in streams) else "recording"
    length = f"{int(seconds // 60)}:{seconds % 60:04.1f} minutes" if seconds else "of unknown length"
    tracks = [_track(each) for each in streams[:20]]
    answer.add("\n".join((length, *tracks)))


def _track(stream: dict[str, object]) -> str:
    size = f", {stream['width']} by {stream['height']}" if "width" in stream else ""
    return f"{stream.get('codec_type')}: {stream.get('codec_name')}{size}"

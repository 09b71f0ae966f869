"""How long sound and film are, by their heads; pictures of a film by the system's program."""

import io
from pathlib import Path

import pytest

from goclaw.common.core.document_kinds import kind_of
from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted
from goclaw.extensions.documents.worker import extract
from tests.extensions.documents.made_media import avi, flac, mp3, mp4, ogg, wav, webm
from tests.picture_support import jpeg


def read(data: bytes, pages: str = "") -> Answer:
    return extract(io.BytesIO(data), Wanted("a.bin", pages=pages))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (wav(75), "WAV recording"),
        (mp3(75), "MP3 recording"),
        (mp3(75, counted=False), "MP3 recording"),
        (ogg(75), "Ogg recording"),
        (ogg(75, "vorbis"), "Ogg recording"),
        (flac(75), "FLAC recording"),
        (mp4(75, 0, 0), "MP4 recording"),
        (mp4(75), "MP4 film of 640 by 360 pixels"),
        (mp4(75, long=True), "MP4 film of 640 by 360 pixels"),
        (avi(75), "AVI film of 320 by 240 pixels"),
        (webm(75), "WebM film of 640 by 480 pixels"),
    ],
)
def test_the_length_and_the_size_are_read_from_the_head(data: bytes, kind: str) -> None:
    answer = read(data)
    assert (answer.kind, answer.total, answer.unit) == (kind, 75, "second")


@pytest.mark.parametrize("text", [b"ID3 tags, explained", b"OggS is a mark", b"fLaC\n", b"RIFF is a form"])
def test_a_text_that_begins_like_a_recording_is_a_text(text: bytes) -> None:
    assert kind_of(text, "a.md") is None


@pytest.mark.parametrize("made", [wav, mp3, ogg, flac, mp4, avi, webm])
def test_a_recording_that_is_cut_off_anywhere_is_no_exception(made: type) -> None:
    whole = made(75)
    for end in range(12, min(len(whole), 900)):
        read(whole[:end])


def program(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program into the place of `ffmpeg`."""
    (folder / "ffmpeg").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "ffmpeg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_film_shows_its_pictures_at_the_seconds_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "frame.jpg").write_bytes(jpeg(8, 8))
    program(tmp_path, f'echo "$@" >> {tmp_path}/asked; cat {tmp_path}/frame.jpg', monkeypatch)
    assert read(mp4(75)).rest == 'pages="9,28,46,65" (its pictures at these seconds)'
    shown = read(mp4(75), "10,70-75")
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.partition("-ss ")[2].partition(" ")[0] for line in asked] == ["9", "69", "70", "71"]
    assert shown.shown == [10, 70, 71, 72] and shown.pictures == [("image/jpeg", jpeg(8, 8))] * 4


def test_without_the_program_and_of_sound_the_answer_says_why_there_are_no_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "with ffmpeg installed, pages show its pictures" in read(mp4(75)).notes[0]
    with pytest.raises(Refused, match="with ffmpeg installed its pictures are shown"):
        read(mp4(75), "3")
    program(tmp_path, "exit 1", monkeypatch)
    with pytest.raises(Refused, match="has no pictures at these seconds that ffmpeg can read"):
        read(wav(75), "3")

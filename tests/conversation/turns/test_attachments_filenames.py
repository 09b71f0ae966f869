"""Names for received files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.common.workspace.paths import clean
from goclaw.conversation.turns.attachments import recording_name, safe_name

HARMLESS = set("._- ()+,=")


@pytest.mark.parametrize(
    ("name", "mime", "safe"),
    [
        ("report.pdf", "application/pdf", "report.pdf"),
        ("Bericht März (1).pdf", "application/pdf", "Bericht März (1).pdf"),
        ("../../etc/passwd", "text/plain", "passwd"),
        ("C:\\Users\\ann\\a.txt", "text/plain", "a.txt"),
        (".ssh", "text/plain", "ssh"),
        ("-rf", "text/plain", "rf"),
        ("@notes.md", "text/markdown", "notes.md"),
        ("a;rm -rf $HOME`x`|y.sh", "text/plain", "a_rm -rf _HOME_x__y.sh"),
        ("a\nb\0c\u202egnp.exe", "x/y", "a_b_c_gnp.exe"),
        ("", "application/pdf", "document.pdf"),
        ("...", "x/y", "document"),
        ("a.txt. . ", "text/plain", "a.txt"),
        ("e\u0301.txt", "text/plain", "é.txt"),
        ("x" * 500 + ".txt", "text/plain", "x" * 120 + ".txt"),
        ("a." + "x" * 500, "text/plain", "a." + "x" * 118),
    ],
)
def test_a_name_keeps_what_does_no_harm(name: str, mime: str, safe: str) -> None:
    assert safe_name(name, mime) == safe


@given(st.text(max_size=400))
def test_no_name_leaves_its_folder_hides_or_is_too_long(name: str) -> None:
    safe = safe_name(name, "text/plain")
    assert safe and safe[0] not in ".-_ @/" and len(safe.encode()) <= 150
    assert all(character.isalnum() or character in HARMLESS or character == "_" for character in safe)
    assert clean(f"inbox/{safe}", {"/workspace": "."})[0].startswith("inbox/")


@pytest.mark.parametrize(
    ("name", "mime", "expected"),
    [
        ("", "audio/ogg", "voice.ogg"),
        ("", "x/y", "voice.ogg"),
        ("", "audio/mpeg", "voice.mp3"),
        ("a.mp3", "audio/mpeg", "a.mp3"),
        ("a.exe", "audio/mpeg", "a.exe.mp3"),
        ("a", "audio/mp4; codecs=x", "a.m4a"),
        ("a.xyz", "x/y", "a.xyz"),
    ],
)
def test_a_recordings_name_ends_as_transcribers_want_it(name: str, mime: str, expected: str) -> None:
    assert recording_name(name, mime, "voice") == expected

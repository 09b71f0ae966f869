"""The pictures of the README: there, small, whole, and made by their scripts."""

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import house

FOLDER = house.ROOT / "docs" / "images"
LARGEST = 200_000
"""Bytes: a README is opened on phones, too."""
ASKED = "What takes the most room here?"
PICTURES = [
    ("terminal.svg", "make.py", (ASKED, "logs.tar.gz", "brings the logs back")),
    (
        "telegram.svg",
        "telegram.py",
        (ASKED, "Allowed", "tar -czf logs.tar.gz", "brings the logs back", "Deny"),
    ),
]


def words(file: Path) -> str:
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", file.read_text("utf-8"))).split())


@pytest.mark.parametrize(("picture", "shown"), [(picture, shown) for picture, _, shown in PICTURES])
def test_a_picture_is_small_and_shows_a_conversation(picture: str, shown: tuple[str, ...]) -> None:
    file = FOLDER / picture
    assert file.stat().st_size < LARGEST
    assert [text for text in shown if text not in words(file)] == []


def test_the_terminal_is_shown_without_a_log() -> None:
    assert "turn answered" not in words(FOLDER / "terminal.svg")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("picture", "script", "shown"), PICTURES)
def test_a_picture_can_be_made_again(tmp_path: Path, picture: str, script: str, shown: tuple[str, ...]) -> None:
    file = tmp_path / picture
    command = [sys.executable, str(FOLDER / script), str(file)]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(tmp_path), "PYTHONPATH": str(house.ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [text for text in shown if text not in words(file)] == []

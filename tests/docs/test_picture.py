"""The picture of the terminal client: there, small, whole, and made by its script."""

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
SHOWN = ("What takes the most room here?", "logs.tar.gz", "turn answered")


def words(file: Path) -> str:
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", file.read_text("utf-8"))).split())


def test_the_picture_is_small_and_shows_a_conversation() -> None:
    file = FOLDER / "terminal.svg"
    assert file.stat().st_size < LARGEST
    assert [text for text in SHOWN if text not in words(file)] == []


@pytest.mark.slow
@pytest.mark.long
def test_the_picture_can_be_made_again(tmp_path: Path) -> None:
    file = tmp_path / "terminal.svg"
    command = [sys.executable, str(FOLDER / "make.py"), str(file)]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(tmp_path), "PYTHONPATH": str(house.ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [text for text in SHOWN if text not in words(file)] == []

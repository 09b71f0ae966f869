"""Zip files: the format follows from the files in one, not from its name. Others are archives."""

import importlib
from typing import BinaryIO

from goclaw.extensions.documents.formats.answer import Answer, Wanted
from goclaw.extensions.documents.formats.markup import Package

_MARKS = (
    ("word/document.xml", "word"),
    ("ppt/presentation.xml", "slides"),
    ("xl/workbook.xml", "sheets"),
    ("META-INF/container.xml", "books"),
    ("content.xml", "opendocument"),
)
_MACROS = ("vbaProject.bin", "Basic/script-lc.xml", "macrosheets/")


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Read a zip file by its format; with a member named, that file in it."""
    package = Package(file)
    reader = next((name for mark, name in _MARKS if mark in package.names and not wanted.member), "archives")
    if reader != "archives" and any(mark in name for name in package.names for mark in _MACROS):
        answer.note("it has macros; they are not run and not shown")
    importlib.import_module(f"goclaw.extensions.documents.formats.{reader}").extract_package(package, wanted, answer)

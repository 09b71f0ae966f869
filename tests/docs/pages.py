"""The pages for people, README.md and docs/*.md, and what a machine can read in them: blocks, marks, links, quotes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests import house

NOT_RUN = re.compile(r"<!-- not run: (?P<reason>\S.*) -->")
"""Stands directly before a block of commands that no test can run, with the reason."""
IN_TERMINAL = re.compile(r"<!-- in a terminal until: (?P<text>.+?), then: (?P<keys>\S.*) -->")
"""Stands directly before a block that goes on until somebody types: what is seen then, and the keys that end it."""
SHELL = ("sh", "console")
_FENCE = re.compile(r"(?P<ticks>`{3,})(?P<language>\w*)\s*")
_HEADING = re.compile(r"#{1,6} (?P<text>.+)")
_LINK = re.compile(r"\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"(?<!`)`(?P<code>[^`\n]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A block of lines that stands apart: `language` is what its fence names; an indented one counts as `sh`."""

    page: str
    line: int
    language: str
    text: str
    mark: str = ""
    """The comment directly before it."""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Page:
    """One page."""

    path: Path

    @property
    def name(self) -> str:
        return house.name_of(self.path)

    @property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @property
    def prose(self) -> str:
        """The page without its blocks; every line keeps its number."""
        lines = self.text.splitlines()
        for block in self.blocks():
            for number in range(block.line - 1, block.line - 1 + len(block.text.splitlines())):
                lines[number] = ""
        return "\n".join(lines)

    def blocks(self) -> list[Block]:
        """Every fenced or indented block."""
        return list(_blocks(self.name, self.text.splitlines()))

    def codes(self) -> list[str]:
        """What stands between backticks in the prose, with the escapes of tables undone."""
        return [found["code"].replace("\\|", "|") for found in _CODE.finditer(self.prose)]

    def links(self) -> list[str]:
        """Where the links of the prose lead."""
        return [found["target"] for found in _LINK.finditer(self.prose)]

    def anchors(self) -> set[str]:
        """What can stand after a `#` in a link to this page, made as GitHub makes it."""
        headings = (_HEADING.fullmatch(line) for line in self.prose.splitlines())
        return {_anchor(found["text"]) for found in headings if found}


@cache
def pages() -> tuple[Page, ...]:
    """README.md, then docs/."""
    return tuple(Page(path) for path in [house.ROOT / "README.md", *sorted((house.ROOT / "docs").glob("*.md"))])


def _anchor(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        start = number
        if fence := _FENCE.fullmatch(lines[number].strip()):
            number += 1
            while number < len(lines) and lines[number].strip() != fence["ticks"]:
                number += 1
            text = "\n".join(lines[start + 1 : number])
            yield Block(page, start + 2, fence["language"], text, _mark(lines, start))
        elif _is_indented(lines, number):
            while number < len(lines) and (lines[number].startswith("    ") or not lines[number].strip()):
                number += 1
            text = "\n".join(line[4:] for line in lines[start:number])
            yield Block(page, start + 1, "sh", text.rstrip(), _mark(lines, start))
            continue
        number += 1


def _is_indented(lines: list[str], number: int) -> bool:
    return lines[number].startswith("    ") and (number == 0 or not lines[number - 1].strip())


def _mark(lines: list[str], start: int) -> str:
    before = next((line for line in reversed(lines[:start]) if line.strip()), "")
    return before.strip() if before.strip().startswith("<!--") else ""

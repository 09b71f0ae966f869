"""What commands say, in short, for the tests of how it is compressed."""

from collections.abc import Sequence

from goclaw.tools.execution.compression.base import Family


def compressed(family: Family, text: str, command: str) -> str:
    """The lines that are left; the whole where there is nothing to be done."""
    shown = family.compress(text.splitlines(), command.split())
    return text if shown is None else joined(shown.lines)


def joined(lines: Sequence[str]) -> str:
    """Lines as a text."""
    return "".join(f"{line}\n" for line in lines)

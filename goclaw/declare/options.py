"""What the words of a declaration give back: small values, each of a type that says where it may stand.

No word does anything by itself. A declaration collects its options, and refuses one that is said twice.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Option:
    """A word with its value."""

    word: str
    value: Any


class ToolOption(Option):
    """Stands in `tool`."""


class ToolsetOption(Option):
    """Stands in `toolset`."""


class ExportOption(Option):
    """Stands in `export`."""


class RegistryOption(Option):
    """Stands in `registry`."""


class PublishOption(ToolsetOption, ExportOption):
    """Stands in `toolset` and in `export`: what registries are told of it."""


class LabelOption(ToolOption, ToolsetOption, ExportOption):
    """Stands wherever tools are described."""


class TextOption(ToolsetOption, ExportOption, RegistryOption):
    """Stands where something has a description of its own."""


SEVERAL = frozenset({"tags", "artifact", "publish_to"})
"""Words that add up; of all others one is enough."""


def collected(options: Iterable[Option], where: str) -> dict[str, Any]:
    """The values by their words; those that add up as tuples.

    Raises:
        ValueError: a word is said twice.
    """
    found: dict[str, Any] = {}
    for option in options:
        if option.word in SEVERAL:
            found[option.word] = (*found.get(option.word, ()), *option.value)
        elif option.word in found:
            raise ValueError(f"{where}: {option.word} is said twice")
        else:
            found[option.word] = option.value
    return found


def description(text: str) -> TextOption:
    """What a toolset, an export or a registry is for."""
    return TextOption("description", text)


def tags(*values: str) -> LabelOption:
    """Labels by which policies and selections choose tools (`tag:x`)."""
    return LabelOption("tags", values)

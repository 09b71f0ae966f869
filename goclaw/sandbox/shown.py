"""The command whose output a shell line shows: a plain one, the last of a pipeline, or the one before `| head`.

Nothing rests on it but how an output is shown: permissions are asked of `shell` and `plain`.
"""

import re
from collections.abc import Sequence

from tree_sitter import Node

from goclaw.sandbox.base import Unclear
from goclaw.sandbox.shell import WRAPPERS, parsed, words_of

_HARMLESS_REDIRECTION = re.compile(r"2>&1|2>\s*/dev/null")
_TRANSPARENT = frozenset({"timeout", "nice", "env", "command", "stdbuf", "time"})
"""Wrappers that say nothing themselves, or nothing that looks like what they run."""
_PART_OF = frozenset({"head", "tail", "cat"})
"""Without a file they show lines of the command before."""
_PATTERN = re.compile(r"[^-{][^$`{]*")
"""A word that stands for names of files. Should one look like an option, only the form of the output is misjudged."""


def shown_by(line: str) -> tuple[str, ...]:
    """Return the command and its words, without a `cd` before it.

    Raises:
        Unclear: several commands have a part in the output, or a word is only known when it runs.
    """
    root = parsed(line)
    if root.has_error or len(root.children) != 1:
        raise Unclear("it is more than one command")
    commands = [_words(node) for node in _pipeline(root.children[0])]
    while len(commands) > 1 and _is_part(commands[-1]):
        commands.pop()
    return _unwrapped(commands[-1])


def _pipeline(node: Node) -> list[Node]:
    """Return the commands of a pipeline without a leading `cd`; the grammar reads `cd x && a 2>&1 | b` as `(…) | b`."""
    match node.type:
        case "list":
            before, last = node.named_children[:-1], node.named_children[-1]
            if all(child.is_named or child.type == "&&" for child in node.children) and all(map(_moves, before)):
                return _pipeline(last)
        case "pipeline" if all(child.is_named or child.type == "|" for child in node.children):
            return [command for child in node.named_children for command in _pipeline(child)]
        case "redirected_statement":
            statement, *others = node.named_children
            if all(map(_is_harmless, others)):
                return _pipeline(statement)
        case "command":
            return [node]
    raise Unclear("it is more than a command")


def _moves(node: Node) -> bool:
    """Whether it is nothing but `cd folder`."""
    if node.type == "list":
        return all(child.type == "&&" or _moves(child) for child in node.children)
    return node.type == "command" and words_of(node)[:1] == ("cd",)


def _is_harmless(redirection: Node) -> bool:
    return bool(_HARMLESS_REDIRECTION.fullmatch(_text(redirection)))


def _words(command: Node) -> tuple[str, ...]:
    if any("$" in _text(node) or "`" in _text(node) for node in command.named_children
           if node.type == "variable_assignment"):  # fmt: skip
        raise Unclear("a variable is only known when it runs")
    if any(node.type.endswith("redirect") for node in command.named_children):
        raise Unclear("it is more than a command")
    name, *words = words_of(command) or (None,)
    nodes = command.children_by_field_name("argument")
    given = [word if word is not None else _pattern(node) for word, node in zip(words, nodes, strict=True)]
    if not name:
        raise Unclear("the name of a command is only known when it runs")
    return (name, *given)


def _pattern(node: Node) -> str:
    text = _text(node)
    if node.type != "word" or not _PATTERN.fullmatch(text):
        raise Unclear("a word is only known when it runs")
    return text


def _is_part(words: Sequence[str]) -> bool:
    """Whether the command shows some of the lines that come to it, and no others."""
    if words[0] not in _PART_OF:
        return False
    counts = {at + 1 for at, word in enumerate(words) if word in ("-n", "-c")}
    return all(word.startswith("-") or at in counts for at, word in enumerate(words) if at)


def _unwrapped(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that a wrapper runs: of `timeout 9 pytest` the last word."""
    while (name := words[0].rpartition("/")[2]) in _TRANSPARENT:
        found = WRAPPERS[name](words, 1)
        inner = tuple(word for word in found[0].words if word is not None) if found else ()
        if not inner or len(inner) >= len(words):
            raise Unclear("it runs nothing")
        words = inner
    return words


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")

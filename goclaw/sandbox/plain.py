"""Shell lines of plain commands only, so that each of them can be allowed permanently.

Only words that stand there as they are, pipelines of them, and `;`, `&&`, `||` between: no variables, redirections,
substitutions, loops. A pipeline is one part, because what flows into a command matters as much as the command.
"""

import re
from collections.abc import Iterator

from tree_sitter import Node

from goclaw.sandbox.base import Grammar, Part, Unclear
from goclaw.sandbox.shell import WRAPPERS, commands_of, parsed, words_of
from goclaw.sandbox.shown import shown_by

_MOVES = frozenset({"cd", "pushd", "popd"})
"""The commands after which the line runs in another folder."""
_DESTROYS = frozenset(
    {"rm", "rmdir", "unlink", "shred", "truncate", "dd", "mkfs", "wipefs", "kill", "pkill", "killall"}
)
"""The commands that are never allowed permanently, because their effect depends on the present files."""
INTERPRETERS = re.compile(
    r"python[\d.]*|pypy[\d.]*|perl[\d.]*|ruby[\d.]*|node|nodejs|deno|bun|php[\d.]*|lua[\d.]*|luajit|Rscript|R|tclsh"
    r"|wish|[gmn]?awk|sed|osascript|ghci?|scala|groovy|julia|jshell|psql|sqlite3|mysql|vim?|ex|ed|emacs|nano"
)
"""Interpreters: their arguments may be any program; a script argument is that program."""
_BETWEEN = frozenset({";", "\n", "&&", "||"})
_HARMLESS_REDIRECTION = re.compile(r"2>&1|[12]?>\s*/dev/null")


def parts_of(line: str) -> list[Part]:
    """Return the parts of a line that may be remembered, in order.

    Raises:
        Unclear: the line is more than plain commands, or one of them could be anything.
    """
    root = parsed(line)
    if root.has_error:
        raise Unclear("it is not understood as a shell command")
    parts = [tuple(_command(node) for node in pipeline) for pipeline in _pipelines(root)]
    if not parts:
        raise Unclear("it runs nothing")
    return parts


def _pipelines(node: Node) -> Iterator[list[Node]]:
    match node.type:
        case "program" | "list" if all(child.is_named or child.type in _BETWEEN for child in node.children):
            for child in node.named_children:
                yield from _pipelines(child)
        case "pipeline":
            yield [_bare(child) for child in node.named_children]
        case "command" | "redirected_statement":
            yield [_bare(node)]
        case _:
            raise Unclear(f"{node.type.replace('_', ' ')} cannot be remembered")


def _bare(node: Node) -> Node:
    """Return the command below harmless redirections."""
    if node.type == "redirected_statement":
        first, *others = node.named_children
        if all(_HARMLESS_REDIRECTION.fullmatch((other.text or b"").decode(errors="replace")) for other in others):
            return _bare(first)
    if node.type != "command":
        raise Unclear("it is more than commands")
    return node


def _command(node: Node) -> tuple[str, ...]:
    if any(child.type not in ("command_name", "word", "number", "raw_string", "string", "concatenation")
           for child in node.named_children):  # fmt: skip
        raise Unclear("it is more than words")
    words = words_of(node)
    known = tuple(word for word in words if word is not None)
    if not known or len(known) != len(words):
        raise Unclear("a word is only known when it runs")
    name = known[0].rpartition("/")[2]
    if name in _DESTROYS:
        raise Unclear(f"{name} destroys something")
    if name in WRAPPERS or name in _MOVES:
        raise Unclear(f"{name} can run anything")
    if INTERPRETERS.fullmatch(name) and (len(known) < 2 or known[1].startswith("-")):
        raise Unclear(f"{name} without a script can run anything")
    return known


GRAMMAR = Grammar(commands_of, parts_of, shown_by)

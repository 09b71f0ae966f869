"""Questions about a shell line: which parts can be allowed permanently, and which command's output it shows.

Parts are plain commands only: words that stand there as they are, pipelines of them, and `;`, `&&`, `||` between; no
variables, redirections, substitutions, loops. A pipeline is one part, because what flows into a command matters as
much as the command.

The command shown is a plain one, the last of a pipeline, or the one before `| head`. Only the form of an output rests
on it, no permission.
"""

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from goclaw.tools.execution.sandbox.base import Grammar, Part, Unclear
from goclaw.tools.execution.sandbox.shell import WRAPPERS, commands_of, parse, text_of, words_of

_ERRORS_REDIRECTION = re.compile(r"2>&1|2>\s*/dev/null")
_TRANSPARENT = frozenset({"timeout", "nice", "env", "command", "stdbuf", "time"})
"""Wrappers that say nothing themselves, or nothing that looks like what they run."""
_PART_OF = frozenset({"head", "tail", "cat"})
"""Without a file they show lines of the command before."""
_SUBSTITUTION = re.compile(r"`|\$\(|[<>]\(")
"""A command in a value, which may say something of its own."""
_PATTERN = re.compile(r"[^-{][^$`{]*")
"""A word that stands for names of files. Should one look like an option, only the form of the output is misjudged."""


def shown_by(line: str) -> tuple[str, ...]:
    """Return the command and its words, without a `cd` or variables before it.

    Raises:
        Unclear: several commands have a part in the output, or a word is only known when it runs.
    """
    root = parse(line)
    if root.has_error:
        raise Unclear("it is not understood as a shell command")
    commands = [_shown_words(node) for node in _shown_pipeline(root)]
    while len(commands) > 1 and _is_part(commands[-1]):
        if commands[-1][0] == "tail" and commands[-2][0] in _PART_OF:
            break  # which lines of a file they are is unknown
        commands.pop()
    words = commands[-1]
    while (name := words[0].rpartition("/")[2]) in _TRANSPARENT:
        found = WRAPPERS[name](words, 1)
        inner = tuple(word for word in found[0].words if word is not None) if found else ()
        if not inner or len(inner) >= len(words):
            raise Unclear("it runs nothing")
        words = inner
    return words


def _shown_pipeline(node: Node) -> list[Node]:
    """Return the commands of a pipeline without silent ones before; `cd x && a 2>&1 | b` is read as `(…) | b`."""
    match node.type:
        case "program" | "list" if node.named_children and all(map(_is_silent, node.children[:-1])):
            return _shown_pipeline(node.children[-1])
        case "pipeline" if all(child.is_named or child.type == "|" for child in node.children):
            return [command for child in node.named_children for command in _shown_pipeline(child)]
        case "redirected_statement":
            statement, *others = node.named_children
            if all(_ERRORS_REDIRECTION.fullmatch(text_of(other)) for other in others):
                return _shown_pipeline(statement)
        case "command":
            return [node]
    raise Unclear("it is more than a command")


def _is_silent(node: Node) -> bool:
    """Whether it is `cd folder`, sets variables, or stands between such commands."""
    match node.type:
        case "list":
            return all(map(_is_silent, node.children))
        case "command":
            return words_of(node)[:1] == ("cd",)
        case "declaration_command" if not node.named_children or node.named_children[0].type == "word":
            return False  # without a variable, or with an option, it lists them
        case "declaration_command" | "variable_assignment" | "variable_assignments":
            return not _SUBSTITUTION.search(text_of(node))
    return node.type in ("&&", ";", "comment")


def _shown_words(command: Node) -> tuple[str, ...]:
    if any(node.type == "variable_assignment" and not _is_silent(node) for node in command.named_children):
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
    text = text_of(node)
    if node.type != "word" or not _PATTERN.fullmatch(text):
        raise Unclear("a word is only known when it runs")
    return text


def _is_part(words: Sequence[str]) -> bool:
    """Whether the command shows some of the lines that come to it, and no others."""
    if words[0] not in _PART_OF:
        return False
    counts = {at + 1 for at, word in enumerate(words) if word in ("-n", "-c")}
    return all(word.startswith("-") or at in counts for at, word in enumerate(words) if at)


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
    root = parse(line)
    if root.has_error:
        raise Unclear("it is not understood as a shell command")
    parts = [tuple(_plain_words(node) for node in pipeline) for pipeline in _plain_pipelines(root)]
    if not parts:
        raise Unclear("it runs nothing")
    return parts


def _plain_pipelines(node: Node) -> Iterator[list[Node]]:
    match node.type:
        case "program" | "list" if all(child.is_named or child.type in _BETWEEN for child in node.children):
            for child in node.named_children:
                yield from _plain_pipelines(child)
        case "pipeline":
            yield [_without_redirection(child) for child in node.named_children]
        case "command" | "redirected_statement":
            yield [_without_redirection(node)]
        case _:
            raise Unclear(f"{node.type.replace('_', ' ')} cannot be remembered")


def _without_redirection(node: Node) -> Node:
    """Return the command below harmless redirections."""
    if node.type == "redirected_statement":
        first, *others = node.named_children
        if all(_HARMLESS_REDIRECTION.fullmatch(text_of(other)) for other in others):
            return _without_redirection(first)
    if node.type != "command":
        raise Unclear("it is more than commands")
    return node


def _plain_words(node: Node) -> tuple[str, ...]:
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

"""Which commands a shell line would run, as far as that can be known without running it.

The line is parsed with bash's whole grammar. Every command in it is found, wherever it stands: after `;`, `&&`, `|`,
in substitutions, loops, functions and here-documents, and behind wrappers that run another command (`env`, `xargs`,
`sh -c` …). What cannot be known makes the line unclear, and whoever has rules for commands refuses it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from goclaw.sandbox.base import Found, Unclear, Words

DEEPEST = 8
"""Wrappers within wrappers that are followed; more is nobody's honest command."""
_STEERING = re.compile(
    r"LD_\w+|PATH|CDPATH|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|IFS|PS4|PROMPT_COMMAND|BASH_FUNC_.*|\w*PAGER|\w*EDITOR|GIT_\w+"
)
"""Variables that make a harmless command run another one."""
_FOLLOWED = re.compile(
    "program|list|pipeline|negated_command|redirected_statement|compound_statement|subshell|function_definition|comment"
    "|if_statement|elif_clause|else_clause|for_statement|while_statement|do_group|case_statement|case_item"
    "|command|command_name|declaration_command|unset_command|variable_assignments?|variable_name|special_variable_name"
    "|word|number|raw_string|string|string_content|concatenation|ansi_c_string|brace_expression|array|regex"
    "|simple_expansion|expansion|command_substitution|process_substitution|extglob_pattern|arithmetic_expansion"
    "|file_redirect|file_descriptor|heredoc_redirect|heredoc_start|heredoc_body|heredoc_content|heredoc_end"
    "|herestring_redirect|test_command|unary_expression|binary_expression|parenthesized_expression|test_operator"
)
"""What a line may consist of (node types of the grammar). Anything newer or odder is not followed."""
_ARITHMETIC = re.compile(r"\$?\(\([0-9\s+*/%()<>=&|^~!?:-]*\)\)")
"""Only numbers: bash runs what a variable holds where it counts (`x='a[$(id)]'; echo $((x))`)."""
_TESTS = re.compile(r"(?s)\[\[.*\s-(eq|ne|lt|le|gt|ge)\b.*|.*\s-[vR]\b.*")
"""Where `[[` counts, or a test looks for a variable by its name: bash runs what stands in an index."""
_HIDDEN = re.compile(r"(?<!\\)(`|\$\()")
"""A substitution. In a text that the grammar gives no parts to it was overlooked."""
_BY_NAME = frozenset({"test", "printf", "read", "unset", "wait", "getopts", "typeset", "nameref"})
"""Builtins that take a text for the name of a variable, and run what stands in its index."""


def commands_of(line: str, depth: int = 0) -> list[Found]:
    """Every command that the line would run, wrappers and what they wrap included.

    Raises:
        Unclear: that cannot be known.
    """
    if depth > DEEPEST:
        raise Unclear("it is nested too deeply")
    root = parsed(line)
    if root.has_error:
        raise Unclear("it is not understood as a shell command")
    found: list[Found] = []
    for node in _nodes(root):
        if node.type == "command":
            found += _unwrapped(words_of(node), depth)
        else:
            _check(node)
    return found


def parsed(line: str) -> Node:
    """The line by bash's grammar; `has_error` where it is none."""
    return _parser().parse(line.encode(errors="replace")).root_node


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def _nodes(node: Node) -> Iterator[Node]:
    """Every named node below, in order: substitutions stand inside of words."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += reversed(current.named_children)


def _check(node: Node) -> None:
    """Raise Unclear for what makes bash run things that do not stand there as commands."""
    if not _FOLLOWED.fullmatch(node.type):
        raise Unclear(f"{node.type.replace('_', ' ')} is not followed")
    text = _text(node)
    match node.type:
        case "variable_assignment":
            _check_assignment(node)
        case "declaration_command":
            kinds = {child.type for child in node.named_children if not _text(child).startswith("-")}
            if not kinds <= {"variable_assignment", "variable_name"}:
                raise Unclear("what it declares is only known when it runs")
        case "word" | "string_content" | "heredoc_content" | "heredoc_body" if not node.named_children:
            if _HIDDEN.search(text) and not _is_quoted_document(node):
                raise Unclear("it has a substitution that is not understood")
        case "test_command" if _TESTS.fullmatch(text):
            raise Unclear("what it looks at is only known when it runs")
        case "expansion" if _is_indirect(text):
            raise Unclear("what it stands for is only known when it runs")
    if text.startswith(("((", "$((")) and not _ARITHMETIC.fullmatch(text):
        raise Unclear("it counts with variables")


def _is_indirect(expansion: str) -> bool:
    """Whether `${…}` takes a text for a name or a prompt, both of which bash expands once more."""
    return expansion.startswith("${!") or any(sign in expansion for sign in "@[`")


def _is_quoted_document(node: Node) -> bool:
    """Whether it is the body of a here-document in which nothing is expanded (`<<'E'`)."""
    starts = [child for child in node.parent.children if child.type == "heredoc_start"] if node.parent else []
    return node.type == "heredoc_body" and any(_text(start).startswith(("'", '"', "\\")) for start in starts)


def _check_assignment(node: Node) -> None:
    name = node.child_by_field_name("name")
    text = _text(name).partition("[")[0] if name else ""
    if not text or _STEERING.fullmatch(text):
        raise Unclear(f"it sets {text or 'a variable'}, which steers other commands")


def words_of(command: Node) -> Words:
    """The name of a command and its arguments."""
    name = command.child_by_field_name("name")
    if name is None:
        return ()
    arguments = [_word(child) for child in command.children_by_field_name("argument")]
    return (_word(name.named_children[0] if name.named_children else name), *arguments)


def _word(node: Node) -> str | None:
    """What the shell makes of a word; None when that depends on anything but the word itself."""
    match node.type:
        case "word" | "number" | "command_name":
            text = _text(node)
            return None if re.search(r"(?<!\\)[*?\[{}]|^~", text) else re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
        case "raw_string":
            return _text(node)[1:-1]
        case "string":
            if all(child.type == "string_content" for child in node.named_children):
                return re.sub(r'\\([$`"\\\n])', r"\1", _text(node)[1:-1])
            return None
        case "concatenation":
            parts = [_word(child) for child in node.children]
            return None if None in parts else "".join(part for part in parts if part)
        case _:
            return None


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _unwrapped(words: Words, depth: int) -> list[Found]:
    """The command, and what it runs if it is one that runs others."""
    if not words:
        return []
    if words[0] is None:
        raise Unclear("the name of a command is only known when it runs")
    by_name = words[0] in _BY_NAME and (words[0] not in ("test", "printf") or "-v" in words)
    if by_name and any(word is None or "[" in word for word in words[1:]):
        raise Unclear(f"which variable {words[0]} is about is only known when it runs")
    found = [Found(words)]
    follow = WRAPPERS.get(words[0].rpartition("/")[2])
    return found + (follow(words, depth + 1) if follow else [])


def _known(words: Sequence[str | None]) -> list[str]:
    if None in words:
        raise Unclear("what a command runs is only known when it runs")
    return [word for word in words if word is not None]


def _script(words: Words, depth: int) -> list[Found]:
    """`sh -c 'script'`. A script file is a command of its own, which the rules for `sh` itself are about."""
    given = list(words[1:])
    while given:
        option = given.pop(0)
        if option is None:
            raise Unclear("what a shell runs is only known when it runs")
        if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", option):
            rest = [word for word in given if word is None or not word.startswith(("-", "+"))]
            return commands_of(_known(rest[:1])[0], depth) if rest else []
        if not option.startswith(("-", "+")):
            raise Unclear("it runs a script")
    raise Unclear("it starts a shell that reads commands")


def _eval(words: Words, depth: int) -> list[Found]:
    return commands_of(" ".join(_known(words[1:])), depth)


def _after_options(with_value: str = "", *, skip: int = 0) -> "Follow":
    """What follows options, `NAME=value` and `skip` more words. `with_value`: options whose value is the next word."""

    def follow(words: Words, depth: int) -> list[Found]:
        rest, left = list(words[1:]), skip
        while rest:
            word = rest[0]
            if word is None:
                raise Unclear("what a command runs is only known when it runs")
            if word in ("-S", "--split-string") or word.startswith(("-S", "--split-string=")):
                raise Unclear("options in a text are not followed")
            if word.startswith("-") and word != "-":
                rest.pop(0)
                if word in with_value.split() and rest:
                    rest.pop(0)
            elif "=" in word and not left and re.match(r"\w+=", word):
                if _STEERING.fullmatch(word.partition("=")[0]):
                    raise Unclear(f"it sets {word.partition('=')[0]}, which steers other commands")
                rest.pop(0)
            elif left:
                left -= 1
                rest.pop(0)
            else:
                return _unwrapped(tuple(rest), depth)
        return []

    return follow


def _find(words: Words, depth: int) -> list[Found]:
    found: list[Found] = []
    for at, word in enumerate(words):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            found += _unwrapped(words[at + 1 :], depth)
    return found


def _xargs(words: Words, depth: int) -> list[Found]:
    options = "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-lines --max-args --max-procs --replace"
    # What it reads are more arguments, which nobody knows.
    return [replace(command, words=(*command.words, None)) for command in _after_options(options)(words, depth)]


def _never(words: Words, depth: int) -> list[Found]:
    raise Unclear(f"what {words[0]} runs is not followed")


Follow = Callable[[Words, int], list[Found]]
WRAPPERS: Mapping[str, Follow] = {
    **dict.fromkeys(("sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "fish", "csh", "tcsh"), _script),
    "eval": _eval,
    "find": _find,
    "env": _after_options("-u --unset -C --chdir"),
    "xargs": _xargs,
    **dict.fromkeys(("nohup", "setsid", "command", "builtin", "exec", "time", "coproc"), _after_options("-a")),
    "nice": _after_options("-n --adjustment"),
    "ionice": _after_options("-c -n --class --classdata"),
    "stdbuf": _after_options("-i -o -e"),
    "timeout": _after_options("-k -s --kill-after --signal", skip=1),
    "chrt": _after_options("-T -P -D", skip=1),
    "taskset": _after_options("", skip=1),
    "sudo": _after_options("-u -g -h -p -C -r -t -U -D -R -T"),
    "doas": _after_options("-u -C"),
    "busybox": _after_options(),
    "toybox": _after_options(),
    **dict.fromkeys((".", "source", "alias", "enable", "trap", "hash", "bind", "complete", "let"), _never),
    **dict.fromkeys(("mapfile", "readarray", "parallel", "watch", "script", "su", "chroot", "unshare"), _never),
    **dict.fromkeys(("nsenter", "flock", "expect", "strace", "ltrace", "gdb", "ssh", "at", "batch", "crontab"), _never),
}
"""Commands that run others, by name, and how to find out which. `_never`: nobody can tell."""

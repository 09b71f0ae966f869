"""Which commands a shell line would run, as far as that can be known without running it.

The line is parsed with bash's whole grammar. Every command in it is found, wherever it stands: after `;`, `&&`, `|`,
in substitutions, loops, functions and here-documents, and behind wrappers that run another command (`env`, `xargs`,
`sh -c` …). What cannot be known makes the line unclear, and whoever has rules for commands refuses it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from goclaw.sandbox.base import Found, Unclear, Words

DEEPEST = 8
"""Wrappers within wrappers that are followed; more is nobody's honest command."""
STEERING = re.compile(
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
_HIDDEN = re.compile(r"(?<!\\)(`|\$\(|\$\[)")
"""A substitution. In a text that the grammar gives no parts to it was overlooked."""
_LITERAL = frozenset({"raw_string", "ansi_c_string", "comment", "heredoc_start", "heredoc_end"})
"""Leaves in which nothing is expanded."""
_PLAIN_DECLARATION = re.compile("-[aAgrx]+|-p")
"""Options of `declare` and its kin by which a value stays a text: with `-i` it is counted, with `-n` it is a name."""
_SUBSTRING = re.compile(r"\$\{\w+(\[[@*0-9]+\])?:(?![-=?+])(?![0-9: -]*\}$)")
"""`${x:y}`, in which bash counts: only numbers are followed."""
_BY_NAME = frozenset({"test", "printf", "read", "unset", "wait", "getopts", "typeset", "nameref"})
"""Builtins that take a text for the name of a variable, and run what stands in its index."""


def commands_of(line: str, depth: int = 0) -> list[Found]:
    """Every command that the line would run, wrappers and what they wrap included.

    Raises:
        Unclear: that cannot be known.
    """
    if depth > DEEPEST:
        raise Unclear("it is nested too deeply")
    if re.search(r"\S\\\n\S", line):
        raise Unclear("a word of it goes on in the next line")
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
    if text.startswith(("((", "$((", "$[")) and not _ARITHMETIC.fullmatch(text):
        raise Unclear("it counts with variables")
    if not node.named_children and node.type not in _LITERAL and not _is_quoted_document(node) and _HIDDEN.search(text):
        raise Unclear("it has a substitution that is not understood")
    _check_kind(node, text)


def _check_kind(node: Node, text: str) -> None:
    match node.type:
        case "variable_assignment":
            _check_assignment(node)
        case "declaration_command":
            for child in node.named_children:
                plain = child.type in ("variable_assignment", "variable_name")
                if not plain and not _PLAIN_DECLARATION.fullmatch(_text(child)):
                    raise Unclear("what it declares is only known when it runs")
        case "unset_command":
            if any(child.type not in ("variable_name", "word") or "[" in _text(child) for child in node.named_children):
                raise Unclear("which variable unset is about is only known when it runs")
        case "array" if any(_text(child).startswith("[") for child in node.named_children):
            raise Unclear("it counts with variables")
        case "test_command" if _TESTS.fullmatch(text):
            raise Unclear("what it looks at is only known when it runs")
        case "expansion" if _is_indirect(text):
            raise Unclear("what it stands for is only known when it runs")


def _is_indirect(expansion: str) -> bool:
    """Whether `${…}` takes a text for a name or a prompt, both of which bash expands once more."""
    return bool(expansion.startswith("${!") or _SUBSTRING.match(expansion)) or any(sign in expansion for sign in "@[`")


def _is_quoted_document(node: Node) -> bool:
    """Whether it is the body of a here-document in which nothing is expanded (`<<'E'`)."""
    starts = [child for child in node.parent.children if child.type == "heredoc_start"] if node.parent else []
    return node.type == "heredoc_body" and any(_text(start).startswith(("'", '"', "\\")) for start in starts)


def _check_assignment(node: Node) -> None:
    name = node.child_by_field_name("name")
    text = _text(name).partition("[")[0] if name else ""
    if not text or STEERING.fullmatch(text):
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
    if re.fullmatch(r"[\w./-]*\{\}[\w./-]*", _text(node)):
        return _text(node)  # a sign of find and xargs, to the shell a text like any other
    match node.type:
        case "word" | "number" | "command_name":
            text = _text(node).replace("\\\n", "")
            return (
                None
                if re.search(r"(?<!\\)[*?\[{}]|^~", text.replace("{}", ""))
                else re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
            )
        case "raw_string":
            return _text(node)[1:-1]
        case "string":
            if all(child.type == "string_content" for child in node.named_children):
                return re.sub(r'\\([$`"\\])', r"\1", _text(node)[1:-1].replace("\\\n", ""))
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
    if "{}" in words[0]:
        raise Unclear("it runs what another command puts there")
    base = words[0].rpartition("/")[2]
    follow = _never if re.match(r"ld(-linux.*|-musl.*)?\.so", base) else WRAPPERS.get(base)
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
    given = _known(words[1:])
    return commands_of(" ".join(given[1:] if given[:1] == ["--"] else given), depth)


def _rest(words: Words, with_value: str, flags: str, skip: int) -> Words:
    """What is left of the words behind a wrapper's name, its options, `NAME=value` and `skip` more words."""
    rest, left = list(words[1:]), skip
    while rest:
        word = rest[0]
        if word is None:
            raise Unclear("what a command runs is only known when it runs")
        if word == "--":
            return tuple(rest[1 + left :])
        if word.startswith("-") and word != "-":
            rest.pop(0)
            if _takes_next(word, with_value.split(), flags.split()) and rest:
                rest.pop(0)
        elif "=" in word and not left and re.match(r"\w+=", word):
            if STEERING.fullmatch(word.partition("=")[0]):
                raise Unclear(f"it sets {word.partition('=')[0]}, which steers other commands")
            rest.pop(0)
        elif left:
            left -= 1
            rest.pop(0)
        else:
            break
    return tuple(rest)


def _takes_next(option: str, with_value: Sequence[str], flags: Sequence[str]) -> bool:
    """Whether the word behind an option is its value. A shortened long one, or one that nobody knows, is unclear."""
    if option.startswith("--"):
        name, given, _ = option.partition("=")
        if name not in (*with_value, *flags):
            raise Unclear(f"the option {name} is not followed")
        return name in with_value and not given
    letters = option[1:]
    for at, letter in enumerate(letters):
        if f"-{letter}" in with_value:
            return at == len(letters) - 1
    return False


def _after_options(with_value: str = "", flags: str = "", *, skip: int = 0) -> "Follow":
    """What follows a wrapper's options: `with_value` may have a value in the next word, `flags` are other long ones."""

    def follow(words: Words, depth: int) -> list[Found]:
        return _unwrapped(_rest(words, with_value, flags, skip), depth)

    return follow


def _env(words: Words, depth: int) -> list[Found]:
    if any(word is not None and re.match("-[A-Za-z]*S|--s", word) for word in words[1:]):
        raise Unclear("options in a text are not followed")
    flags = "--ignore-environment --null --debug --block-signal --default-signal --ignore-signal --list-signal-handling"
    return _after_options("-u --unset -C --chdir -a --argv0", flags)(words, depth)


def _find(words: Words, depth: int) -> list[Found]:
    if None in words:
        raise Unclear("whether find runs something is only known when it runs")
    found: list[Found] = []
    for at, word in enumerate(words):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            found += _unwrapped(words[at + 1 :], depth)
    return found


_REPLACES = re.compile("-[A-Za-z0]*[Ii]|--replace=?")
"""Options of xargs by which what it reads stands where they say; what follows in the word is the sign for it."""


def _xargs(words: Words, depth: int) -> list[Found]:
    options = "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs --max-chars --process-slot-var"
    flags = (
        "--null --eof --replace --max-lines --interactive --no-run-if-empty --open-tty --show-limits --verbose --exit"
    )
    rest = _rest(words, options, flags, 0)
    given = [word or "" for word in words[1 : len(words) - len(rest)]]
    if any(map(_REPLACES.match, given)):
        if any(sign in (rest[0] or "") for option in given if rest and (sign := _REPLACES.sub("", option))):
            raise Unclear("what xargs runs is only known when it runs")
        rest = (*rest[:1], *(None for _ in rest[1:]))  # any of them may hold what is replaced
    # What it reads are more arguments, which nobody knows.
    return _unwrapped((*rest, None), depth) if rest else []


def _never(words: Words, depth: int) -> list[Found]:
    raise Unclear(f"what {words[0]} runs is not followed")


Follow = Callable[[Words, int], list[Found]]
WRAPPERS: Mapping[str, Follow] = {
    **dict.fromkeys(("sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "fish", "csh", "tcsh"), _script),
    "eval": _eval,
    "find": _find,
    "env": _env,
    "!": _after_options(),
    "xargs": _xargs,
    **dict.fromkeys(("nohup", "command", "builtin", "exec", "coproc"), _after_options("-a")),
    "time": _after_options("-f -o --format --output", "--append --portability --verbose"),
    "setsid": _after_options("", "--ctty --fork --wait"),
    "nice": _after_options("-n --adjustment"),
    "ionice": _after_options("-c -n --class --classdata", "--ignore"),
    "stdbuf": _after_options("-i -o -e --input --output --error"),
    "timeout": _after_options("-k -s --kill-after --signal", "--foreground --preserve-status --verbose", skip=1),
    "chrt": _after_options("-T -P -D", "--other --batch --idle --fifo --rr", skip=1),
    "taskset": _after_options("", "--cpu-list", skip=1),
    "sudo": _after_options("-u -g -h -p -C -r -t -U -D -R -T"),
    "doas": _after_options("-u -C"),
    "busybox": _after_options(),
    "toybox": _after_options(),
    **dict.fromkeys((".", "source", "alias", "enable", "trap", "hash", "bind", "complete", "let"), _never),
    **dict.fromkeys(("compgen", "fc", "jobs", "runuser", "sg", "newgrp", "pkexec", "systemd-run", "run-parts"), _never),
    **dict.fromkeys(
        ("setarch", "linux32", "linux64", "i386", "x86_64", "uname26", "prlimit", "choom", "setpriv"), _never
    ),
    **dict.fromkeys(
        ("numactl", "valgrind", "fakeroot", "dbus-run-session", "bwrap", "firejail", "start-stop-daemon"), _never
    ),
    **dict.fromkeys(("capsh", "chpst", "cgexec", "cpulimit", "rlwrap", "unbuffer", "tmux", "screen", "entr"), _never),
    **dict.fromkeys(("mapfile", "readarray", "parallel", "watch", "script", "su", "chroot", "unshare"), _never),
    **dict.fromkeys(("nsenter", "flock", "expect", "strace", "ltrace", "gdb", "ssh", "at", "batch", "crontab"), _never),
}
"""Commands that run others, by name, and how to find out which. `_never`: nobody can tell."""

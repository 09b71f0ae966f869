"""The commands that a shell line would run, as far as that can be known without running it.

The line is parsed with bash's whole grammar. Every command in it is found, wherever it stands: after `;`, `&&`, `|`, in
substitutions, loops, functions and here-documents, and after wrappers that run another command (`env`, `xargs`, `sh
-c` …). What cannot be known makes the line unclear, and rules for commands refuse it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import dropwhile, pairwise

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from goclaw.tools.execution.sandbox.base import ResolvedCommand, Unclear, Words
from goclaw.tools.execution.sandbox.program_options import OPTIONS, Syntax, is_option

DEEPEST = 8
"""Nested wrappers that are followed; honest commands have fewer."""
STEERING = re.compile(
    r"LD_\w+|GCONV_PATH|PATH|CDPATH|BASH_.*|ENV|SHELLOPTS|BASHOPTS|IFS|PS4|PROMPT_COMMAND|\w*PAGER|\w*EDITOR|GIT_\w+"
)
"""Variables that make a harmless command run another one."""
_CONFIGURING = re.compile(
    r"HOME|VISUAL|BROWSER|XDG_CONFIG_\w+|KUBECONFIG|KUBERC|DOCKER_\w+|(?i:npm_config_\w+)|PIP_CONFIG_FILE|APT_CONFIG"
    r"|SYSTEMD_\w+|SSH_\w+|SUDO_\w+|NODE_OPTIONS|LESS(OPEN|CLOSE|EDIT|KEY\w*)"
    r"|TAR_OPTIONS|RSYNC_RSH|RIPGREP_CONFIG_PATH|PERL5OPT|RUBYOPT"
)
"""Variables that have programs read other settings, in which aliases and commands to run may stand."""
_FOLLOWED = re.compile(
    "program|list|pipeline|negated_command|redirected_statement|compound_statement|subshell|function_definition|comment"
    "|if_statement|elif_clause|else_clause|for_statement|while_statement|do_group|case_statement|case_item"
    "|command|command_name|declaration_command|unset_command|variable_assignments?|variable_name|special_variable_name"
    "|word|number|raw_string|string|string_content|concatenation|ansi_c_string|brace_expression|array|regex"
    "|simple_expansion|expansion|subscript|command_substitution|process_substitution|extglob_pattern|arithmetic_expansion"
    "|file_redirect|file_descriptor|heredoc_redirect|heredoc_start|heredoc_body|heredoc_content|heredoc_end"
    "|herestring_redirect|test_command|unary_expression|binary_expression|parenthesized_expression|test_operator"
)
"""The node types of the grammar that are followed in a line. Newer or odder ones are not."""
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
_OTHER_BLANK = re.compile("[\0\v\f\r]")
"""To the grammar they part words, to bash they are letters: it reads on behind a `#` that the grammar takes for a
comment."""
_FIXED_INDEX = re.compile(r"(?<=\w)\[(@|\*|[0-9]+)\]")
"""An index in which nothing is left to count."""
_ASSIGNING = re.compile(r"\$\{(\w+)(\[.*?\])?:?=")
"""`${x:=y}`, by which a variable is set."""

_SHELL_OPTION = re.compile("[-+][A-BD-Za-z]+|--(login|norc|noprofile|posix|restricted|verbose)")
"""Options of shells: letters, of which `o` and `O` take the next word, and long ones that name no file or command. `-C`
of fish is a command."""

_STEERING_KEY = re.compile(
    r"(?i)(alias\.|core\.(pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy|alter)"
    r"|pager\.|sequence\.editor|diff\..*(external|command|textconv)|(diff|merge)tool\.|merge\..*driver|filter\."
    r"|credential\b.*helper|gpg\.|include\.|includeif\.|protocol\.|remote\..*(uploadpack|receivepack|vcs)|ssh\."
    r"|uploadpack\.|sendemail\.|browser\.|man\.|instaweb\.|trailer\.|submodule\..*update|interactive\.difffilter"
    r"|help\.autocorrect)[^ ]*="
)
"""Settings of git by which it runs another program."""
_PLAIN_PAGER = re.compile(r"(?i)core\.pager=(cat|less)?")
_ATTACHED = re.compile("(?:-c|--config(?:-env)?=)(.+)", re.DOTALL)
_BEFORE_SETTING = frozenset({"-c", "--config", "--config-env"})
_HANDED = re.compile(
    r"--(u(p(l[a-z-]*)?)?|rece[a-z-]*|exe[a-z]*|extc[a-z]*|exec-path)(=|$)|--(tree|index|msg|env|parent|commit|tag).*-filt"
    r"|--op[a-z-]*(=|$)|ext::"
)
"""Options (by any of their beginnings) and addresses of git that hold a command."""

_REPLACES = re.compile("-[A-Za-z0]*[Ii]|--replace=?")
"""Options of xargs by which what it reads stands where they say; what follows in the word is the sign for it."""


def commands_of(line: str, depth: int = 0) -> list[ResolvedCommand]:
    """Return every command that the line would run, wrappers and their commands included.

    Raises:
        Unclear: that cannot be known.
    """
    if depth > DEEPEST:
        raise Unclear("it is nested too deeply")
    if re.search(r"\S\\\n\S", line):
        raise Unclear("a word of it goes on in the next line")
    if _OTHER_BLANK.search(line):
        raise Unclear("it has a control character")
    root = parse(line)
    if root.has_error:
        raise Unclear("it is not understood as a shell command")
    found: list[ResolvedCommand] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "command":
            found += _unwrap(words_of(node), depth)
        else:
            _check(node)
        waiting += reversed(node.named_children)  # substitutions stand inside of words
    return found


def parse(line: str) -> Node:
    """Parse the line by bash's grammar; `has_error` where it is invalid."""
    return _parser().parse(line.encode(errors="replace")).root_node


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def _check(node: Node) -> None:
    """Raise Unclear for what makes bash run things that do not stand there as commands."""
    if not _FOLLOWED.fullmatch(node.type):
        raise Unclear(f"{node.type.replace('_', ' ')} is not followed")
    text = text_of(node)
    if text.startswith(("((", "$((", "$[")) and not _ARITHMETIC.fullmatch(text):
        raise Unclear("it counts with variables")
    if not node.named_children and node.type not in _LITERAL and not _is_quoted_document(node) and _HIDDEN.search(text):
        raise Unclear("it has a substitution that is not understood")
    _check_what_is_set(node, text)
    _check_kind(node, text)


def _check_what_is_set(node: Node, text: str) -> None:
    match node.type:
        case "variable_assignment":
            _check_assignment(node)
        case "for_statement":
            variable = node.child_by_field_name("variable")
            _check_variable(text_of(variable) if variable else "")
        case "expansion" if found := _ASSIGNING.match(text):
            _check_variable(found[1])


def _check_kind(node: Node, text: str) -> None:
    match node.type:
        case "declaration_command":
            for child in node.named_children:
                plain = child.type in ("variable_assignment", "variable_name")
                if not plain and not _PLAIN_DECLARATION.fullmatch(text_of(child)):
                    raise Unclear("what it declares is only known when it runs")
        case "unset_command":
            if any(
                child.type not in ("variable_name", "word") or "[" in text_of(child) for child in node.named_children
            ):
                raise Unclear("which variable unset is about is only known when it runs")
        case "subscript" if not re.fullmatch(rf"\w+{_FIXED_INDEX.pattern}", text):
            raise Unclear("it counts with variables")
        case "array" if any(text_of(child).startswith("[") for child in node.named_children):
            raise Unclear("it counts with variables")
        case "test_command" if _TESTS.fullmatch(text):
            raise Unclear("what it looks at is only known when it runs")
        case "expansion" if _is_indirect(text):
            raise Unclear("what it stands for is only known when it runs")


def _is_indirect(expansion: str) -> bool:
    """Whether `${…}` takes a text for a name or a prompt; bash expands both once more."""
    expansion = _FIXED_INDEX.sub("", expansion, count=1)
    return bool(expansion.startswith("${!") or _SUBSTRING.match(expansion)) or any(sign in expansion for sign in "@[`")


def _is_quoted_document(node: Node) -> bool:
    """Whether it is the body of a here-document without expansion (`<<'E'`)."""
    starts = [child for child in node.parent.children if child.type == "heredoc_start"] if node.parent else []
    return node.type == "heredoc_body" and any(text_of(start).startswith(("'", '"', "\\")) for start in starts)


def _check_assignment(node: Node) -> None:
    name = node.child_by_field_name("name")
    variable = text_of(name).partition("[")[0] if name else ""
    command = node.parent.child_by_field_name("name") if node.parent and node.parent.type == "command" else None
    if variable != "IFS" or command is None or text_of(command) != "read":  # it holds for this one builtin only
        _check_variable(variable)


def _check_variable(name: str) -> None:
    if not name or STEERING.fullmatch(name) or _CONFIGURING.fullmatch(name):
        raise Unclear(f"it sets {name or 'a variable'}, which steers other commands")


def words_of(command: Node) -> Words:
    """Return the name of a command and its arguments."""
    name = command.child_by_field_name("name")
    if name is None:
        return ()
    arguments = [_word(child) for child in command.children_by_field_name("argument")]
    return (_word(name.named_children[0] if name.named_children else name), *arguments)


def _word(node: Node) -> str | None:
    """Return the word as the shell expands it; None when that depends on anything but the word itself."""
    if re.fullmatch(r"[\w./-]*\{\}[\w./-]*", text_of(node)):
        return text_of(node)  # a sign of find and xargs, to the shell a text like any other
    match node.type:
        case "word" | "number" | "command_name":
            text = text_of(node).replace("\\\n", "")
            has_pattern = re.search(r"(?<!\\)[*?\[{}]|^~", text.replace("{}", ""))
            return None if has_pattern else re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
        case "raw_string":
            return text_of(node)[1:-1]
        case "string":
            if all(child.type == "string_content" for child in node.named_children):
                return re.sub(r'\\([$`"\\])', r"\1", text_of(node)[1:-1].replace("\\\n", ""))
            return None
        case "concatenation":
            parts = [_word(child) for child in node.children]
            return None if None in parts else "".join(part for part in parts if part)
        case _:
            return None


def text_of(node: Node) -> str:
    """Return a node as it stands in the line."""
    return (node.text or b"").decode(errors="replace")


def _unwrap(words: Words, depth: int) -> list[ResolvedCommand]:
    """Return the command, and the commands it runs if it is a wrapper."""
    if not words:
        return []
    if words[0] is None:
        raise Unclear("the name of a command is only known when it runs")
    for name in _variables(words):
        if name is None or "[" in name:
            raise Unclear(f"which variable {words[0]} is about is only known when it runs")
        if name.isidentifier():
            _check_variable(name)
    found = [ResolvedCommand(words)]
    if "{}" in words[0]:
        raise Unclear("it runs what another command puts there")
    base = _base(words)
    follow = _never if re.match(r"ld(-linux.*|-musl.*)?\.so", base) else WRAPPERS.get(base) or _CARRIERS.get(base)
    return found + (follow(words, depth + 1) if follow else [])


def _variables(words: Words) -> Words:
    """Return the words of a builtin that may be names of variables."""
    given = words[1:]
    match words[0]:
        case "printf" if given and (given[0] is None or given[0] == "-v"):
            return given[1:2]
        case "printf" if given and given[0] and given[0].startswith("-v"):
            return (given[0][2:],)
        case "test":
            return tuple(name for option, name in pairwise(given) if option in (None, "-v", "-R"))
        case "printf":
            return ()
        case name:
            return given if name in _BY_NAME else ()


def _base(words: Words) -> str:
    """Return the name of a command without its folder."""
    return (words[0] or "").rpartition("/")[2]


def _require_known(words: Sequence[str | None]) -> list[str]:
    if None in words:
        raise Unclear("what a command runs is only known when it runs")
    return [word for word in words if word is not None]


def _script(words: Words, depth: int) -> list[ResolvedCommand]:
    """`sh -c 'script'`. A script file is a command of its own, which the rules for `sh` itself are about."""
    given, has_script = _require_known(words[1:]), False
    while given and re.match("[-+]", given[0]):
        option = given.pop(0)
        if option in ("-", "--"):
            break
        if not _SHELL_OPTION.fullmatch(option):
            raise Unclear(f"the option {option} of {words[0]} is not followed")
        has_script |= option[0] == "-" and "c" in option
        del given[: len(re.findall("[oO]", option))]
    if has_script:
        return commands_of(given[0], depth) if given else []
    raise Unclear("it runs a script" if given else "it starts a shell that reads commands")


def _eval(words: Words, depth: int) -> list[ResolvedCommand]:
    given = _require_known(words[1:])
    return commands_of(" ".join(given[1:] if given[:1] == ["--"] else given), depth)


def _rest(words: Words, syntax: Syntax) -> Words:
    """Return the words after a wrapper's name, its options, `NAME=value` and the words that it skips."""
    rest, left = list(words[1:]), syntax.wraps_after or 0
    while rest:
        word = rest[0]
        if word is None:
            raise Unclear("what a command runs is only known when it runs")
        if word == "--":
            _require_known(rest[1 : 1 + left])
            return tuple(rest[1 + left :])
        if word.startswith("-"):
            rest.pop(0)
            if word != "-" and syntax.takes_next(word):
                _require_known(rest[:1])  # without quotes it may become any number of words
                del rest[:1]
        elif "=" in word and not left and re.match(r"\w+=", word):
            _check_variable(word.partition("=")[0])
            rest.pop(0)
        elif left:
            left -= 1
            rest.pop(0)
        else:
            break
    return tuple(rest)


def _trap(words: Words, depth: int) -> list[ResolvedCommand]:
    """Return the commands of a trap; without a signal it has none."""
    given = _require_known(words[2:] if words[1:2] == ("--",) else words[1:])
    return commands_of(given[0], depth) if len(given) > 1 and not given[0].startswith("-") else []


def _behind(words: Words, depth: int) -> list[ResolvedCommand]:
    """Return the command after a wrapper's options."""
    return _unwrap(_rest(words, OPTIONS[_base(words)]), depth)


def _env(words: Words, depth: int) -> list[ResolvedCommand]:
    if any(word is not None and re.match("-[A-Za-z]*S|--s", word) for word in words[1:]):
        raise Unclear("options in a text are not followed")
    return _behind(words, depth)


def _rest_unless_steered(words: Words, syntax: Syntax, why: str) -> Words:
    rest = _rest(words, syntax)
    before = words[1 : len(words) - len(rest)]
    if any(syntax.steers(word) for word in before if word is not None and is_option(word)):
        raise Unclear(why)
    return rest


def _as_other(words: Words, depth: int) -> list[ResolvedCommand]:
    """`sudo`: some of its options start a shell or an editor."""
    why = f"it has {words[0]} start a shell or an editor"
    return _unwrap(_rest_unless_steered(words, OPTIONS[_base(words)], why), depth)


def _ssh(words: Words, depth: int) -> list[ResolvedCommand]:
    """Return the commands for another machine, where a shell parses the words again."""
    rest = _rest_unless_steered(words, OPTIONS["ssh"], "an option of ssh may start anything")
    if not rest:
        raise Unclear("it starts a shell that reads commands")
    return commands_of(" ".join(_require_known(rest)), depth)


def _git(words: Words, depth: int) -> list[ResolvedCommand]:
    """Return the commands that git is given to run."""
    rest = [word or "" for word in words]
    for before, word in pairwise(words):
        setting = word if before in _BEFORE_SETTING else "".join(_ATTACHED.findall(word or ""))
        if setting is None or (_STEERING_KEY.match(setting) and not _PLAIN_PAGER.fullmatch(setting)):
            raise Unclear("what a setting has git run is not followed")
    if "foreach" in rest and "submodule" in rest:
        behind = dropwhile(is_option, words[rest.index("foreach") + 1 :])
        return commands_of(" ".join(_require_known(list(behind))), depth)
    if "bisect" in rest and "run" in rest:
        return _unwrap(words[rest.index("run") + 1 :], depth)
    if "rebase" in rest or "difftool" in rest:
        return [found for command in _steps(words) for found in commands_of(command, depth)]
    if any(map(_HANDED.match, rest)):
        raise Unclear("what git is told to run is not followed")
    return []


def _steps(words: Words) -> Iterator[str]:
    """Yield the commands of `-x`, `--exec` of `git rebase` and `--extcmd` of `git difftool`, abbreviated or not."""
    for at, word in enumerate(words):
        name, given, value = (word or "").partition("=")
        if name.startswith(("--exe", "--extc")):
            yield value if given else _require_known(words[at + 1 : at + 2] or (None,))[0]
        elif found := re.match(r"-[A-Za-wyz]*x(.*)", word or "", re.DOTALL):
            yield found[1] or _require_known(words[at + 1 : at + 2] or (None,))[0]


def _find(words: Words, depth: int) -> list[ResolvedCommand]:
    if None in words:
        raise Unclear("whether find runs something is only known when it runs")
    found: list[ResolvedCommand] = []
    for at, word in enumerate(words):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            found += _unwrap(words[at + 1 :], depth)
    return found


def _xargs(words: Words, depth: int) -> list[ResolvedCommand]:
    rest = _rest(words, OPTIONS["xargs"])
    given = [word or "" for word in words[1 : len(words) - len(rest)]]
    if any(map(_REPLACES.match, given)):
        if any(sign in (rest[0] or "") for option in given if rest and (sign := _REPLACES.sub("", option))):
            raise Unclear("what xargs runs is only known when it runs")
        rest = (*rest[:1], *(None for _ in rest[1:]))  # any of them may hold what is replaced
    # Its input holds more arguments, which are unknown.
    return _unwrap((*rest, None), depth) if rest else []


def _never(words: Words, depth: int) -> list[ResolvedCommand]:
    raise Unclear(f"what {words[0]} runs is not followed")


Follow = Callable[[Words, int], list[ResolvedCommand]]
WRAPPERS: Mapping[str, Follow] = {
    **dict.fromkeys(("sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "fish", "csh", "tcsh"), _script),
    "eval": _eval,
    "find": _find,
    "trap": _trap,
    "env": _env,
    "xargs": _xargs,
    "ssh": _ssh,
    **dict.fromkeys(("sudo", "doas"), _as_other),
    **dict.fromkeys(("nohup", "command", "builtin", "exec", "coproc", "!"), _behind),
    **dict.fromkeys(("time", "setsid", "nice", "ionice", "stdbuf", "timeout", "chrt", "taskset"), _behind),
    **dict.fromkeys(("busybox", "toybox"), _behind),
    **dict.fromkeys((".", "source", "alias", "enable", "hash", "bind", "complete", "let"), _never),
    **dict.fromkeys(("compgen", "fc", "jobs", "runuser", "sg", "newgrp", "systemd-run", "run-parts"), _never),
    **dict.fromkeys(
        ("setarch", "linux32", "linux64", "i386", "x86_64", "uname26", "prlimit", "choom", "setpriv"), _never
    ),
    **dict.fromkeys(
        ("numactl", "valgrind", "fakeroot", "dbus-run-session", "bwrap", "firejail", "start-stop-daemon"), _never
    ),
    **dict.fromkeys(("capsh", "chpst", "cgexec", "cpulimit", "rlwrap", "unbuffer", "tmux", "screen", "entr"), _never),
    **dict.fromkeys(("mapfile", "readarray", "parallel", "watch", "script", "su", "chroot", "unshare"), _never),
    **dict.fromkeys(("caffeinate", "proxychains", "proxychains4", "torsocks", "faketime", "chronic", "ifne"), _never),
    **dict.fromkeys(("xvfb-run", "systemd-inhibit", "systemd-cat", "sem", "gosu", "su-exec", "tini"), _never),
    **dict.fromkeys(("dumb-init", "dtach", "nocache", "setuidgid", "ssh-agent", "perf", "runcon", "pkexec"), _never),
    **dict.fromkeys(("nsenter", "flock", "expect", "strace", "ltrace", "gdb", "at", "batch", "crontab"), _never),
}
"""Commands that run others, by name, with the function that finds those. `_never`: it cannot be known."""
_CARRIERS: Mapping[str, Follow] = {"git": _git}
"""Commands that may be handed another one to run, but by themselves are what their words say."""

"""Rules for commands: which of them `exec` may run (`tools.exec.allowed` and `tools.exec.blocked`).

A fence for honest mistakes and a second line of defence; the sandbox does the containing. A rule is one or more words:
`git` is that command with any arguments, `git status` only with these first, whatever options stand between them. With
rules in force a line that cannot be judged is refused.
"""

import re
from collections.abc import Iterator, Sequence

from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.core.records import record
from goclaw.errors import ToolError
from goclaw.tools.execution.sandbox.base import Grammar, ResolvedCommand, Unclear, Words
from goclaw.tools.execution.sandbox.program_options import OPTIONS, Syntax, has_option, is_option

HARMLESS = frozenset({":", "true", "false", "cd", "pwd", "exit", "return", "test", "echo", "printf", "shift"})
"""Builtins of the shell that are allowed wherever anything is: they run nothing and only their output is written."""


@record
class Rules:
    """The commands that may run. With neither set: all."""

    allowed: Sequence[str] | None = None
    blocked: Sequence[str] = ()

    def judge(self, line: str) -> None:
        """Return when every command of the line may run.

        Raises:
            ToolError: one may not, or it cannot be known; the message names it and the rule.
        """
        if self.allowed is None and not self.blocked:
            return
        try:
            found = load(catalog.GRAMMARS["bash"], Grammar).commands_of(line)
        except Unclear as reason:
            raise _refusal_of(str(reason)) from None
        for command in found:
            self._judge_one(command)

    def _judge_one(self, command: ResolvedCommand) -> None:
        shown = " ".join(word or "…" for word in command.words[:3])[:100]
        for rule in filter(None, map(str.split, self.blocked)):
            try:
                blocked = any(_may_be(reading, rule) for reading in _readings(command.words))
            except Unclear as reason:
                raise _refusal_of(f"{reason} (`{shown}`)", f"the rule `{' '.join(rule)}`") from None
            if blocked:
                shown = _matching(command.words, rule)
                raise ToolError(f"permission denied: `{shown}` is blocked by the rule `{' '.join(rule)}`")
        if self.allowed is None or command.name in HARMLESS:
            return
        reasons = []
        for rule in filter(None, map(str.split, self.allowed)):
            try:
                if _is(command.words, rule):
                    return
            except Unclear as reason:
                reasons.append(reason)
        if reasons:
            raise _refusal_of(str(reasons[0]))
        raise ToolError(f"permission denied: `{shown}` is not among the allowed commands")


def _refusal_of(reason: str, rule: str = "the rules for commands") -> ToolError:
    return ToolError(f"permission denied: {reason}, so {rule} cannot judge it")


def _matching(words: Words, rule: Sequence[str]) -> str:
    """Return a blocked command up to the last word that the rule needs; of a long text the beginning and the end."""
    ends = range(3, min(len(words), 50))  # of more, each reading would take long
    end = next((at for at in ends if any(_may_be(each, rule) for each in _readings(words[:at]))), len(words))
    text = " ".join(word or "…" for word in words[:end])
    return text if len(text) <= 100 else f"{text[:50]} … {text[-45:]}"


def _readings(words: Words) -> Iterator[Words]:
    """Yield a command by its name without folders, and its equivalent forms."""
    name = (words[0] or "").rpartition("/")[2]
    yield words
    yield (name, *words[1:])
    if name.startswith("git-"):
        yield ("git", name.removeprefix("git-"), *words[1:])
    if re.fullmatch(r"pip[\d.]+", name):
        yield ("pip", *words[1:])
    if re.fullmatch(r"(python|pypy)[\d.]*", name):
        for at, word in enumerate(words[1:], 1):
            if word is not None and (found := re.fullmatch(r"-[A-Za-z]*?m(.*)", word)):
                yield (found[1], *words[at + 1 :]) if found[1] else words[at + 1 :]
                break
    groups = OPTIONS[name].groups if name in OPTIONS else ()
    for at, word in enumerate(words):
        if word in groups:
            yield (name, *words[1:at], *words[at + 1 :])
            break


def _may_be(words: Words, rule: Sequence[str]) -> bool:
    """Whether a command is, for all that is known, the one that a rule names; its options may stand anywhere. Raises
    Unclear: it has unknown options or an unknown alias, and so may be it."""
    if not words or words[0] != rule[0]:
        return False
    wanted = [word for word in rule[1:] if not is_option(word)]
    syntax, rest = OPTIONS.get(rule[0]), list(words[1:])
    for depth, expected in enumerate(wanted):
        if not _has_in_order(rest, wanted[depth:], syntax) and (depth or not _has_alias(rest, syntax)):
            return False
        while rest and is_option(rest[0]):
            _drop_option(rest, rule[0], syntax if not depth or (syntax and syntax.anywhere) else None)
        if None in words[: len(words) - len(rest) + 1]:
            return True  # without quotes it may become any number of words
        if not rest:
            return False
        word = rest.pop(0)
        if syntax and syntax.wraps and re.match(r"\w+=", word or ""):
            return _may_be((rule[0], *rest), rule)
        if _same(word, expected, syntax):
            continue
        if syntax and syntax.commands and not depth and word not in syntax.commands:
            raise Unclear(f"`{rule[0]} {word}` may be an alias")
        return False
    options = [word for word in rule[1:] if is_option(word)]
    return None in words or all(has_option(words[1:], option, syntax) for option in options)


def _drop_option(rest: list[str | None], name: str, syntax: Syntax | None) -> None:
    """Take an option from the front, and the word that is its value."""
    option = rest.pop(0) or ""
    if option == "--":
        return
    if syntax is None:
        raise Unclear(f"the option {option} of {name} is not followed")
    if syntax.takes_next(option) and rest:
        rest.pop(0)


def _has_in_order(words: Sequence[str | None], wanted: Sequence[str], syntax: Syntax | None) -> bool:
    """Whether these may be among the words, in this order. An unknown word may be all of them."""
    left = list(wanted)
    for word in words:
        if word is None or not left:
            return True
        if _same(word, left[0], syntax):
            left.pop(0)
    return not left


def _has_alias(words: Sequence[str | None], syntax: Syntax | None) -> bool:
    """Whether one of the words may be an alias of a subcommand."""
    commands = syntax.commands if syntax else ()
    return bool(commands) and any(not is_option(word) and word not in commands for word in words)


def _same(word: str | None, expected: str, syntax: Syntax | None) -> bool:
    """Whether a word of a command is that of a rule; by another name or its beginning, where the program has such."""
    if word is None or word == expected or "{}" in word:  # find puts a name there
        return True
    names = syntax.names if syntax else None
    if not names:
        return False
    return names.get(word, word) == names.get(expected, expected) or (word not in names and expected.startswith(word))


def _is(words: Words, rule: Sequence[str]) -> bool:
    """Whether a command is certainly the one that a rule names, with nothing before those words that changes it. Raises
    Unclear: what follows may have it run more than its words say."""
    # By its bare name alone: `./git` and `/tmp/git` may be anything.
    if words[0] != rule[0]:
        return False
    syntax, rest = OPTIONS.get(rule[0]), list(words[1:])
    for depth, expected in enumerate(rule[1:]):
        while rest and rest[0] != expected and is_option(rest[0]):
            known = syntax if not depth or (syntax and syntax.anywhere) else None
            if known is None or known.wraps or known.steers(rest[0] or ""):
                return False
            try:
                _drop_option(rest, rule[0], known)
            except Unclear:
                return False
        if None in words[: len(words) - len(rest)] or not rest or rest.pop(0) != expected:
            return False
    if syntax and rule[1:] and (found := syntax.dangers(rule[1], rest)):
        raise Unclear(f"`{found}` may have `{' '.join(rule)}` run another program")
    return True

"""Rules for commands: which of them `exec` may run (`tools.exec.allowed` and `tools.exec.blocked`).

A fence for honest mistakes and a second line behind the sandbox, which is what contains. A rule is one or more words:
`git` is that command with any arguments, `git status` only with these first. With rules in force a line that cannot
be judged is refused.
"""

from collections.abc import Sequence

from goclaw import catalog
from goclaw.errors import ToolError
from goclaw.plugins import load
from goclaw.records import record
from goclaw.sandbox.base import Found, Grammar, Unclear

HARMLESS = frozenset({":", "true", "false", "cd", "pwd", "exit", "return", "test", "echo", "printf", "shift"})
"""Builtins of the shell that are allowed wherever anything is: they run nothing and only their output is written."""


@record
class Rules:
    """What may run. Neither set: everything."""

    allowed: Sequence[str] | None = None
    blocked: Sequence[str] = ()

    def judge(self, line: str) -> None:
        """Return when every command of the line may run.

        Raises:
            ToolError: one may not, or it cannot be known; the message names it and the key of the rule.
        """
        if self.allowed is None and not self.blocked:
            return
        try:
            found = load(catalog.GRAMMARS["bash"], Grammar).commands_of(line)
        except Unclear as reason:
            keys = "tools.exec.allowed" if self.allowed is not None else "tools.exec.blocked"
            raise ToolError(f"permission denied: {reason}, so it cannot be judged by {keys}") from None
        for command in found:
            self._judge_one(command)

    def _judge_one(self, command: Found) -> None:
        shown = " ".join(word or "…" for word in command.words[:3])[:100]
        base = command.name.rpartition("/")[2]
        for rule in self.blocked:
            words = rule.split()
            if words and words[0] in (command.name, base) and _begins(command, words, doubt=True):
                raise ToolError(f"permission denied: `{shown}` is blocked by tools.exec.blocked (`{rule}`)")
        if self.allowed is None or command.name in HARMLESS:
            return
        # By its bare name alone: `./git` and `/tmp/git` may be anything.
        if not any(_begins(command, rule.split(), doubt=False) for rule in self.allowed if rule.strip()):
            raise ToolError(f"permission denied: `{shown}` is not among tools.exec.allowed")


def _begins(command: Found, words: Sequence[str], *, doubt: bool) -> bool:
    """Whether a command begins with these words after its name; `doubt` is the answer where one of them is unknown."""
    if not doubt and command.name != words[0]:
        return False
    given = command.words[1 : len(words)]
    if len(given) < len(words) - 1:
        return False
    pairs = list(zip(given, words[1:], strict=True))
    if any(word is not None and word != wanted for word, wanted in pairs):
        return False
    return doubt or all(word is not None for word, _ in pairs)

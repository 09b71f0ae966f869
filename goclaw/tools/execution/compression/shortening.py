"""Shorten one output by the family of its command, or leave it alone; and which models get shortened outputs.

Lines about errors stay in every family.
"""

import logging
import re
from collections.abc import Callable, Mapping

from goclaw.common.config.schema import Config, ModelOptions
from goclaw.common.core.records import record
from goclaw.llm.open import is_local
from goclaw.llm.token_counts import estimate_text
from goclaw.tools.execution.compression import file_commands, git, unit_tests
from goclaw.tools.execution.compression.base import Family, Words

log = logging.getLogger(__name__)


LEAST_SAVED = 0.1
"""Share of the tokens that has to be saved: less is not worth a form that the model knows less well."""
NOTICE = 30
"""Tokens of the line that describes the change."""


@record
class Short:
    """A shortened output."""

    text: str
    about: str
    left_out: bool

    def note(self, whole: str) -> str:
        """Return a line for the model; `whole` is the place of the whole output, empty where it is not needed."""
        return f"[compressed: {self.about}; for the whole read {whole}]" if whole else f"[compressed: {self.about}]"


Shorten = Callable[[str, int], Short | None]
"""From a command's output and exit code to a shorter text; None: keep the output."""


def shorten(text: str, words: Words, code: int) -> Short | None:
    """Shorten the output of the command `words`; None: keep it.

    It is kept for other commands, for exit codes that mean a failure, and where too little would be saved.
    """
    found = family_of(words)
    if found is None or code not in found[0].fine:
        return None
    family, words = found
    lines = text.removesuffix("\n").split("\n")
    try:
        shown = family.compress(lines, words)
    except Exception:
        log.exception("what %s said could not be compressed", words[0])
        return None
    if shown is None or not any(map(str.strip, shown.lines)):
        return None  # nothing would be left of `ls -la | head -3`, as if there were no files
    short = "".join(f"{line}\n" for line in shown.lines)
    if len(short) >= len(text) or estimate_text(short) + NOTICE > (1 - LEAST_SAVED) * estimate_text(text):
        return None
    if (lost := next((line for line in lines if family.essence(line) not in short), None)) is not None:
        log.warning("what %s said was not compressed: a line about an error would have gone", words[0])
        log.debug("that line is %r", lost)
        return None
    return Short(short, family.about, shown.left_out)


FAMILIES: Mapping[str, Family] = {
    "ls": file_commands.LS,
    "git status": git.GIT_STATUS,
    "git diff": git.GIT_DIFF,
    "git log": git.GIT_LOG,
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg"), file_commands.GREP),
    **dict.fromkeys(("cat", "head", "tail"), file_commands.CAT),
    **dict.fromkeys(("pytest", "py.test"), unit_tests.PYTEST),
    "go test": unit_tests.GO_TEST,
}
"""By the name of a command, with its subcommand where it has one."""
_PYTHON = re.compile(r"python[\d.]*")
_RUNNERS = frozenset({"uv", "poetry", "pdm", "hatch"})
"""With `run` before it, what follows is the command."""
_GIT_VALUED = frozenset({"-C", "-c"})
"""Options of `git` itself whose value is a word of its own."""


def family_of(words: Words) -> tuple[Family, Words] | None:
    """Return the family of a command, and the command from its name on; None: it has no family."""
    words = _strip_prefix(words)
    if not words:
        return None
    if words[0] in FAMILIES:
        return FAMILIES[words[0]], words
    family = FAMILIES.get(" ".join(words[:2]))
    return (family, words[1:]) if family else None


def _strip_prefix(words: Words) -> Words:
    """Return the words from the command's name on, without its folder."""
    if not words:
        return words
    name, *rest = (words[0].rpartition("/")[2], *words[1:])
    if _PYTHON.fullmatch(name) and rest[:1] == ["-m"]:
        return rest[1:]
    if name in _RUNNERS and rest[:1] == ["run"]:
        return _strip_prefix(rest[1:])
    if name == "git":
        while rest and rest[0].startswith("-"):
            rest = rest[2:] if rest[0] in _GIT_VALUED else rest[1:]
    return (name, *rest)


def wants_compression(spec: str, config: Config) -> bool:
    """Whether the model `provider:name` gets it (goa, "Output Compression": three levels of precedence)."""
    of_model = config.models.options.get(spec, ModelOptions()).compress_output
    of_all = config.tools.exec.compress_output
    return next((said for said in (of_model, of_all) if said is not None), is_local(spec, config))

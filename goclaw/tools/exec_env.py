"""The environment variables that a call gives its command."""

import re
from collections.abc import Mapping

from goclaw.errors import InvalidInput
from goclaw.sandbox.shell import STEERING
from goclaw.tools.text import encoded

MAX_VARIABLES = 50
MAX_BYTES = 32_000
"""Bytes of all of them together: they count among what the kernel takes as arguments."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LOADING = re.compile(
    r"PYTHON\w+|PERL\w+|RUBY(OPT|LIB)\w*|GEM_\w+|BUNDLE_\w+|NODE_(OPTIONS|PATH)|(?i:npm_config_\w+)|DENO_\w+|BUN_\w+"
    r"|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|LUA_\w+|PHPRC|PHP_INI_SCAN_DIR|R_\w+|JULIA_\w+"
    r"|(CARGO|RUSTUP|RUSTC)_\w+|RUSTC|RUSTFLAGS|GO(FLAGS|ENV|PATH|ROOT|TOOLCHAIN)|(GNU)?MAKE(FLAGS|FILES)|MAKE"
    r"|HOME|SHELL|ZDOTDIR|FPATH|XDG_\w+|INPUTRC|LESS\w*|BROWSER|TERMINFO\w*|TERMCAP|SYSTEMD_\w+"
    r"|GCONV_PATH|LOCPATH|NLSPATH|MALLOC_\w+|GLIBC_TUNABLES|HOSTALIASES|OPENSSL_\w+|SSH_\w+|SUDO_\w+"
)
"""Variables by which an interpreter or a program loads or starts something else, beside those of the shell."""
_HARMLESS = re.compile(
    r"PYTHON(UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|UTF8|IOENCODING|FAULTHANDLER|TRACEMALLOC|NOUSERSITE|SAFEPATH)"
    r"|GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)"
)
"""Harmless variables that look like dangerous ones."""


def checked(env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables, if they are allowed.

    Raises:
        InvalidInput: one of them changes which programs run, is no variable, or they are too many.
    """
    if len(env) > MAX_VARIABLES:
        raise InvalidInput(f'field "env": expected at most {MAX_VARIABLES} variables, got {len(env)}')
    for name, value in env.items():
        _check(name, value)
    if sum(len(name) + len(value.encode()) + 2 for name, value in env.items()) > MAX_BYTES:
        raise InvalidInput(f'field "env": expected at most {MAX_BYTES} bytes in all; put the content into a file')
    return env


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInput(f'field "env": expected names of letters, digits and _, got {name[:80]!r}')
    if not _HARMLESS.fullmatch(name) and (STEERING.fullmatch(name) or _LOADING.fullmatch(name)):
        raise InvalidInput(
            f'field "env": {name} may not be set, because it changes which programs run; '
            "name the program in the command instead"
        )
    if "\0" in value:
        raise InvalidInput(f'field "env.{name}": expected text without NUL characters, got one')
    encoded(value, f"env.{name}")

"""The parts of the machine that a contained command may see, and the search for its program there.

They are the same for every tier.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from goclaw.errors import SandboxUnavailable, ToolError

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
"""Programs and libraries; a distribution may have some of them as symbolic links into /usr."""

CONFIGURATION = (
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/group",
    "/etc/gitconfig",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
)
"""The parts of /etc that ordinary programs need; no keys, passwords or files of services."""

NETWORK_CONFIGURATION = ("/etc/resolv.conf", "/etc/host.conf", "/etc/gai.conf")
"""In addition where the command may use the network."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""Variables of the daemon's environment that commands see. Nothing else is: tokens are in there."""


_NO_TERMINAL = {
    "TERM": "dumb",
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"), "cat"),
    "GIT_TERMINAL_PROMPT": "0",
    # At the end of its input Vim waits at standard error, a pipe of ours, for ever. This comes after every `-c`.
    "VIMINIT": 'autocmd VimEnter * if !has("ttyin") | cquit | endif',
}
"""Programs that would wait for keys write all that they have, or say that there is no terminal, and end."""


def environment(own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that every command sees; `own` are the daemon's."""
    passed_on = {name: own[name] for name in _PASSED_ON if name in own}
    return {"PATH": _SEARCH_PATH, "LANG": "C.UTF-8", **_NO_TERMINAL, **passed_on}


def contained_root(user: int | None = None) -> dict[str, str]:
    """Return the variables for root's programs in a sandbox, which takes root's powers; none for other users.

    GNU tar, as root, gives each file to the user of the archive, which fails without those powers. For every other user
    it has this option by itself. One in the command line wins, and so does the variable in a command's own environment.
    """
    root = (os.geteuid() if user is None else user) == 0
    return {"TAR_OPTIONS": "--no-same-owner"} if root else {}


def readable(network: bool) -> tuple[str, ...]:
    """Return the paths that a command may read and run."""
    return SYSTEM + CONFIGURATION + (NETWORK_CONFIGURATION if network else ())


def shell() -> str:
    """Return the shell that commands are written for: bash, else sh."""
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


def refuse_system(workspace: Path) -> None:
    """Raise SandboxUnavailable for a workspace that would expose the system, or the kernel's view of it."""
    real = workspace.resolve()
    inside = [path for path in (*SYSTEM, "/etc") if Path(path).is_relative_to(real)]
    if inside:
        raise SandboxUnavailable(f"the workspace {workspace} contains {inside[0]}: give the agent a folder of its own")
    if real.is_relative_to("/proc") or real.is_relative_to("/sys"):
        raise SandboxUnavailable(f"the workspace {workspace} is the kernel's: give the agent a folder of its own")


def visible(paths: Iterable[str], hidden: Sequence[Path]) -> Iterator[str]:
    """Yield those of `paths` that exist; for one that contains something of `hidden`, its other contents instead.

    `hidden` are real paths.
    """
    above = {identity(path) for inner in hidden for path in (inner, *inner.parents)}
    for path in paths:
        # By identity: the real path of each of forty, link by link, would cost more than all the rest of a request.
        found = identity(path)
        if found and found in above:
            yield from map(str, _without(Path(path).resolve(), hidden))
        elif found:
            yield path


def identity(path: str | Path) -> tuple[int, int] | None:
    """Return device and inode number of the target of a path; None where there is nothing."""
    try:
        found = os.stat(path)  # noqa: PTH116 -- a path object costs as much again
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _without(path: Path, hidden: Iterable[Path]) -> Iterator[Path]:
    """`path`, or if some of `hidden` lies in it, all that is in it but those."""
    inside = [one for one in hidden if one.is_relative_to(path)]
    if path in inside:
        return
    if not inside:
        yield path
        return
    try:
        entries = list(path.iterdir())
    except OSError:
        return
    for entry in entries:
        yield from _without(entry, inside)


def find_program(
    command: str, workspace: Path, search_path: str, *, contained: bool, shared: Path | None = None
) -> str:
    """Return the absolute path of `command`: a name is looked up, a relative path is one of the workspace.

    `shared` is another folder that the sandbox shows.

    Raises:
        ToolError: it is not there, cannot be run, or would not be there in the sandbox (`contained`).
    """
    if "/" not in command:
        found = shutil.which(command, path=search_path)
        if found is None:
            remedy = _one_program(command) or f"; install it (it is looked for in {search_path})"
            raise ToolError(f"command not found: {command}{remedy}")
    else:
        found = str(workspace / command)
        if not Path(found).is_file():
            raise ToolError(f"command not found: {command}{_one_program(command)}")
        if not os.access(found, os.X_OK):
            raise ToolError(f"{command} cannot be run: it is not executable (`chmod +x`)")
    if contained:
        real, workspaces = Path(found).resolve(), [folder.resolve() for folder in (workspace, shared) if folder]
        if not any(map(real.is_relative_to, [*map(Path, SYSTEM), *workspaces])):
            raise ToolError(
                f"{command} is {real}, which the sandbox does not show: install it below {', '.join(SYSTEM[:4])} or "
                "in the workspace"
            )
    return found


def _one_program(command: str) -> str:
    """Return the addition to the error where several words were given for one program."""
    several = len(command.split()) > 1
    return "; expected one program: its arguments belong into args, a shell line into exec" if several else ""

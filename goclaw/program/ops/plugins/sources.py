"""Requirements as people write them: the name of a package, a path, or an address of git."""

import os
import re
from pathlib import Path

from goclaw.program.ops.plugins.uv import InstallError

_NAME = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]+\])?"
    r"(?: *(?:===?|~=|!=|[<>]=?)[A-Za-z0-9.*+! ,<>=~-]+)?"
)
"""A name with extras and bounds (PEP 508), without an address and a marker."""
_GIT = re.compile(r"(?:git\+)?(?:https?|ssh|file)://\S+|git@[\w.-]+:\S+")
_ARCHIVES = (".whl", ".tar.gz", ".zip")


def requirement_of(text: str) -> str:
    """Return the requirement for an argument: `name>=1`, an absolute path, or `git+` and an address.

    Raises:
        InstallError: it has another form, or the path is missing.
    """
    said = text.strip()
    if _GIT.fullmatch(said):
        return _address(said)
    if said.startswith(("~", ".", "/")) or os.sep in said or said.endswith(_ARCHIVES):
        return _path(said)
    if _NAME.fullmatch(said):
        return said
    raise InstallError(
        f"{text!r}: should be the name of a package (`garden-tools`, `garden-tools>=2`), a path (`./garden`), or a git "
        "address (`git+https://host/garden.git`)"
    )


def is_local(requirement: str) -> bool:
    """Whether it is a path."""
    return requirement.startswith("/")


def pin(requirement: str, name: str, version: str, origin: dict[str, object]) -> str:
    """Return the requirement that installs the very same again.

    `origin`: the content of `direct_url.json` (PEP 610); empty for what came from an index.
    """
    match origin:
        case {"url": str(url), "vcs_info": {"commit_id": str(commit)}}:
            subdirectory = origin.get("subdirectory")
            return f"{name} @ git+{url}@{commit}" + (f"#subdirectory={subdirectory}" if subdirectory else "")
        case {"url": str()}:
            return requirement
    extras = re.search(r"\[[^\]]*\]", requirement)
    return f"{name}{extras[0] if extras else ''}=={version}"


def _address(said: str) -> str:
    if said.startswith("git@"):
        host, _, path = said.partition(":")
        return f"git+ssh://{host}/{path}"
    plain = said.removeprefix("git+")
    if plain.partition("#")[0].endswith(_ARCHIVES):
        return plain
    return f"git+{plain}"


def _path(said: str) -> str:
    try:
        path = Path(said).expanduser().absolute()
    except RuntimeError:
        raise InstallError(f"{said}: begins with `~`, and no such user is known here") from None
    if path.suffix == ".py":
        raise InstallError(
            f"{said}: is a single file, not a package; name it in `plugins` of the configuration, or put it into "
            "`tools` of the state folder (docs/plugins.md)"
        )
    if not path.exists():
        raise InstallError(f"{said}: there is no such folder or file")
    if path.is_dir() and not any((path / name).is_file() for name in ("pyproject.toml", "setup.py")):
        raise InstallError(f"{said}: is a folder without a pyproject.toml, so it is not a package (docs/plugins.md)")
    return str(path)

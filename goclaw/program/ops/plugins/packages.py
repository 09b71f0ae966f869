"""Facts of packages: ours, which are the constraint, those in a folder of plugins, and those that a person names.

A person writes the name of a package, a path, or an address of git.
"""

import hashlib
import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import Distribution, distributions
from pathlib import Path

from goclaw.common.core.plugin_folder import own_path
from goclaw.program.ops.plugins.uv import InstallError, normalize

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(
    r"v?([0-9]+!)?[0-9]+(\.[0-9]+)*[-_.]?[a-z]*[-_.]?[0-9]*([-_.]?(post|rev|r|dev)[-_.]?[0-9]*)*(\+[a-z0-9._-]+)?"
)
"""Versions as PEP 440 has them, near enough."""
_SAYS_WHAT = "entry_points.txt"
"""The one file of a package's metadata that counts as content: others differ by the tool that built or installed it."""


def own_packages() -> Mapping[str, Distribution]:
    """Return the packages of GoClaw's own environment by their normalized names, the first of each on the path."""
    found: dict[str, Distribution] = {}
    for package in distributions(path=own_path()):
        # What an interrupted installer left has no name, and systems have versions that no resolver reads.
        if _NAME.fullmatch(package.metadata["Name"] or "") and _VERSION.fullmatch(package.metadata["Version"] or ""):
            found.setdefault(normalize(package.name), package)
    return found


def seed(folder: Path, package: Distribution) -> Path:
    """Write the metadata of one of our packages into the folder, as if it were installed there."""
    name = package.name.replace("-", "_")
    written = folder / f"{name}-{package.version}.dist-info"
    written.mkdir(exist_ok=True)
    (written / "METADATA").write_text(package.read_text("METADATA") or package.read_text("PKG-INFO") or "")
    (written / "RECORD").write_text("")
    return written


def name_in(requirement: str) -> str:
    """Return the normalized name that a requirement begins with; empty for a path or an address."""
    if is_local(requirement) or (":" in requirement and " @ " not in requirement):
        return ""
    name = requirement.partition(" @ ")[0]
    return normalize(re.split(r"[^A-Za-z0-9._-]", name, maxsplit=1)[0])


def name_of_folder(requirement: str) -> str:
    """Return the normalized name that a folder's pyproject.toml says; empty if it says none."""
    try:
        said = tomllib.loads((Path(requirement) / "pyproject.toml").read_text("utf-8")) if is_local(requirement) else {}
        return normalize(str(said.get("project", {}).get("name", "")))
    except (OSError, ValueError, AttributeError):
        return ""


def digest_of(package: Distribution) -> str:
    """Return the SHA-256 over the names and hashes of a package's files, as its RECORD lists them.

    Empty for one with compiled code: its files differ by Python and platform.
    """
    if "Root-Is-Purelib: true" not in (package.read_text("WHEEL") or ""):
        return ""
    lines = sorted(
        f"{file} {file.hash.value if file.hash else _hash_of(package, str(file))}"
        for file in package.files or ()
        if file.suffix != ".pyc" and (not file.parent.name.endswith(".dist-info") or file.name == _SAYS_WHAT)
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _hash_of(package: Distribution, file: str) -> str:
    with suppress(OSError):
        return hashlib.sha256(Path(str(package.locate_file(file))).read_bytes()).hexdigest()
    return ""


_REQUIREMENT = re.compile(
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
    if _REQUIREMENT.fullmatch(said):
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

"""An installed package: by pip into a virtual environment, by `uv tool install`, or by pipx.

The environment is copied to a sibling folder, so that all else that was installed into it stays, the new version is
installed into the copy by the same installer, and the copy takes the place of the original.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson

from goclaw.common.core.files import replace_file
from goclaw.common.core.records import record
from goclaw.errors import StateError
from goclaw.program.ops.backup.swap import remove
from goclaw.program.ops.upgrade.changes import LIST_RELEASES, Source, newest_release
from goclaw.program.ops.upgrade.installation import (
    DISTRIBUTION,
    Release,
    command,
    direct_url,
    find_metadata,
    packages_of,
    rewrite_paths,
    scripts_of,
)
from goclaw.program.ops.upgrade.journal import Journal, Phase

UV_RECEIPT, PIPX_METADATA = "uv-receipt.toml", "pipx_metadata.json"
_EXTRA = re.compile(r"""^(?P<name>[A-Za-z0-9._-]+).*;.*\bextra\s*==\s*['"](?P<extra>[^'"]+)['"]""")
_VERSION = re.compile(r'^__version__ = "(?P<version>[^"]+)"', re.MULTILINE)


@record
class Tool:
    """A way of installing packages into an environment."""

    name: str
    """For people: pip, uv tool, pipx."""
    uses_uv: bool
    upgrade: str
    """The command that a person would type for a version, with `{}` for the requirement."""
    uninstall: str
    """The command that removes GoClaw."""


PIP = Tool("pip", False, "{python} -m pip install '{requirement}'", "{python} -m pip uninstall goclaw")
UV_PIP = Tool(
    "uv pip", True, "uv pip install --python {python} '{requirement}'", "uv pip uninstall --python {python} goclaw"
)
UV_TOOL = Tool("uv tool", True, "uv tool install --force '{requirement}'", "uv tool uninstall goclaw")
PIPX = Tool("pipx", False, "pipx install --force '{requirement}'", "pipx uninstall goclaw")


def tool_of(environment: Path) -> Tool:
    """Return how packages come into an environment, by the files that each installer leaves in it."""
    if (environment / UV_RECEIPT).exists():
        return UV_TOOL
    if (environment / PIPX_METADATA).exists():
        return PIPX
    found = find_metadata()
    by = (found.read_text("INSTALLER") or "").strip() if found else ""
    return UV_PIP if by == "uv" else PIP


class Package:
    """Implements `installation.Installation`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.tool = tool_of(home)
        self._origin = direct_url()

    @property
    def description(self) -> str:
        return f"{self.tool.name}, in {self.home}"

    def check(self) -> None:
        if not os.access(self.home.parent, os.W_OK):
            raise StateError(
                f"{self.home.parent}: not writable, so no new version can be installed next to {self.home}. Upgrade as "
                "the user who installed it"
            )
        if self.tool.uses_uv and not shutil.which("uv"):
            raise StateError(f"uv created {self.home} but is not on PATH; install uv and try again")

    def find_release(self, ref: str) -> tuple[Release, Source]:
        requirement = self._requirement(ref)
        with tempfile.TemporaryDirectory(prefix="goclaw-upgrade-") as folder:
            command([*self._installer(self.home), "--no-deps", "--target", folder, requirement])
            package = Path(folder, DISTRIBUTION)
            found = _VERSION.search(_text(package / "__init__.py"))
            if not found:
                raise StateError(f"{requirement}: has no version of GoClaw")
            texts = (_text(package / "CHANGELOG.md"), _text(package / "durable" / "store" / "sqlite" / "migrations.py"))
        version = found["version"]
        exact = requirement if self._origin or ref else self._build_requirement(f"=={version}")
        return Release(version, exact), Source(version, *texts)

    def fetch(self, release: Release) -> None:
        """Do nothing: the installer fetches."""

    def journal(self, release: Release, old: str) -> Journal:
        beside = self.home.with_name(f".{self.home.name}.goclaw-upgrade")
        return Journal(Phase.PREPARING, old, release.version, self.home, beside)

    def install(self, release: Release, journal: Journal) -> None:
        remove(journal.beside)
        shutil.copytree(journal.home, journal.beside, symlinks=True)
        command([*self._installer(journal.beside), "--upgrade", release.name])
        rewrite_paths(scripts_of(journal.beside), journal.beside, journal.home)
        _update_pipx(journal.beside, release.version)

    def way_back(self, old: str) -> str:
        return self.tool.upgrade.format(python=self.home / "bin" / "python", requirement=self._requirement_of(old))

    def _installer(self, environment: Path) -> Sequence[str | Path]:
        python = environment / "bin" / "python"
        if self.tool.uses_uv:
            return ("uv", "pip", "install", "--quiet", "--python", python)
        return (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")

    def _requirement(self, ref: str) -> str:
        """Return the requirement for the version called `ref`, else the newest, of where GoClaw was installed from."""
        if ref and (os.sep in ref or ref.endswith(".whl")):
            path = Path(ref).expanduser().absolute()
            if not path.exists():
                raise StateError(f"{path}: there is no such file or folder to install from")
            return self._build_requirement(f" @ {path.as_uri()}")
        if "vcs_info" in self._origin:
            url = str(self._origin["url"])
            newest = "" if ref else newest_release(command(["git", *LIST_RELEASES, url]), url)
            return self._build_requirement(f" @ git+{url}@{ref or newest}")
        if self._origin:
            place = unquote(urlsplit(str(self._origin.get("url", ""))).path)
            if ref or "archive_info" in self._origin:
                raise StateError(
                    f"GoClaw was installed from {place}, which has only one version; name the new file or folder with "
                    "`--ref PATH`"
                )
            return self._build_requirement(f" @ {self._origin['url']}")
        return self._build_requirement(f"=={ref.removeprefix('v')}" if ref else "")

    def _requirement_of(self, old: str) -> str:
        """Return the requirement for the version that was installed when this object was made."""
        if not self._origin:
            return self._build_requirement(f"=={old}")
        if "vcs_info" in self._origin:
            return self._build_requirement(f" @ git+{self._origin['url']}@{self._origin['vcs_info']['commit_id']}")
        return self._build_requirement(f" @ {self._origin['url']}")

    def _build_requirement(self, rest: str) -> str:
        extras = ",".join(_extras())
        return f"{DISTRIBUTION}{f'[{extras}]' if extras else ''}{rest}"


def _extras() -> Iterator[str]:
    """Yield the extras with all their packages installed; pip does not write down which were asked for."""
    found = find_metadata()
    wanted: dict[str, list[str]] = {}
    for line in (found.requires if found else None) or ():
        if match := _EXTRA.match(line):
            wanted.setdefault(match["extra"], []).append(match["name"])
    here = {_plain(path.name.split("-")[0]) for path in packages_of(Path(sys.prefix)).glob("*.dist-info")}
    for extra, names in sorted(wanted.items()):
        if extra != "dev" and all(_plain(name) in here for name in names):
            yield extra


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _update_pipx(environment: Path, version: str) -> None:
    """Write the version down where `pipx list` reads it."""
    path = environment / PIPX_METADATA
    if not path.exists():
        return
    known: Mapping[str, Any] = orjson.loads(path.read_bytes())
    main = {**known.get("main_package", {}), "package_version": version}
    replace_file(path, orjson.dumps({**known, "main_package": main}, option=orjson.OPT_INDENT_2), mode=0o644)

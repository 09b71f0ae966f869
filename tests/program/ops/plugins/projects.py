"""Packages as people write them, each with a build backend of its own, so that no test needs an index."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.tools.toolkit.one_file import TOOL

_BACKEND = '''\
"""Builds the folder it is in."""

import os
import pathlib
import tomllib
import zipfile


def build_wheel(target, config_settings=None, metadata_directory=None, editable=False):
    project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    described = f"{name}-{version}.dist-info"
    files = {each: pathlib.Path(each).read_text() for each in os.listdir(".") if each.endswith(".py")}
    del files["backend.py"]
    if editable:
        files = {f"{name}.pth": os.getcwd()}
    needs = "".join(f"Requires-Dist: {each}\\n" for each in project["dependencies"])
    files[f"{described}/METADATA"] = f"Metadata-Version: 2.1\\nName: {project['name']}\\nVersion: {version}\\n{needs}"
    files[f"{described}/WHEEL"] = "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    lines = "".join(
        f"[{group}]\\n" + "".join(f"{point} = {path}\\n" for point, path in points.items())
        for group, points in project.get("entry-points", {}).items()
    )
    files[f"{described}/entry_points.txt"] = lines
    files[f"{described}/RECORD"] = "".join(f"{each},,\\n" for each in [*files, f"{described}/RECORD"])
    wheel = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(target, wheel), "w") as archive:
        for each, text in files.items():
            archive.writestr(each, text)
    return wheel


def build_editable(target, config_settings=None, metadata_directory=None):
    return build_wheel(target, editable=True)
'''


def project(
    folder: Path,
    name: str = "garden-tools",
    version: str = "1.0",
    *,
    needs: Sequence[str] = ("goclaw",),
    points: Mapping[str, str] | None = None,
    source: str = TOOL.format(name="garden", says="from a package"),
) -> Path:
    """Write a package whose one module has the name of the package; `points` are its lines of `goclaw.plugins`."""
    module = name.replace("-", "_")
    points = {"tools.garden": f"{module}:garden"} if points is None else points
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']",
        f"[project]\nname = '{name}'\nversion = '{version}'\ndependencies = {list(needs)!r}",
        '[project.entry-points."goclaw.plugins"]' if points else "",
        *(f"'{point}' = '{path}'" for point, path in points.items()),
    ]
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n")
    (folder / "backend.py").write_text(_BACKEND)
    (folder / f"{module}.py").write_text(source)
    return folder


def wheel(folder: Path, target: Path) -> Path:
    """Build a package into a folder of wheels, which stands for an index (`UV_FIND_LINKS`)."""
    target.mkdir(exist_ok=True)
    code = "import sys; sys.path.insert(0, '.'); import backend; print(backend.build_wheel(sys.argv[1]))"
    done = subprocess.run(
        ["python3", "-c", code, str(target)], cwd=folder, capture_output=True, text=True, check=True, timeout=30
    )
    return target / done.stdout.strip()


def commit(folder: Path) -> str:
    """Make the folder a repository of git, or commit what changed; returns the commit."""
    git = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "a change")):
        subprocess.run([*git, *arguments], cwd=folder, check=True, timeout=30)
    done = subprocess.run(
        [*git, "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True, timeout=30
    )
    return done.stdout.strip()

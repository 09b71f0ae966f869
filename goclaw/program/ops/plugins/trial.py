"""The trial of a folder of plugins, in a process of its own: every part is imported and looked at.

Foreign code may hang, end its process or print: none of that reaches the caller, which reads the result from a file.
"""

import json
import os
import site
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from typing import Any

from goclaw.common.config.keys import closest
from goclaw.common.core import catalog
from goclaw.common.core.plugin_folder import own_path
from goclaw.common.core.plugins import GROUP, fault_of, load
from goclaw.common.core.records import record
from goclaw.program.ops.plugins.uv import environment, normalize

SECONDS = 60.0
"""The time that the imports of one package may take, in seconds."""
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from goclaw.program.ops.plugins.trial import main; main()"
)
_TAKEN = {
    "tools": {**catalog.TOOLS, **{name: path for gate in catalog.GATED_TOOLS.values() for name, path in gate.items()}},
    "commands": catalog.COMMANDS,
    "channels": catalog.CHANNELS,
    "providers": catalog.PROVIDERS,
    "embedders": catalog.EMBEDDERS,
    "transcribers": catalog.TRANSCRIBERS,
}
"""Names that parts of GoClaw itself have, by section."""


@record
class Tried:
    """The result for one package."""

    parts: tuple[str, ...] = ()
    """Its lines of the group."""
    faults: tuple[str, ...] = ()


def try_out(folder: Path, names: Sequence[str], seconds: float = SECONDS) -> Mapping[str, Tried]:
    """Import the parts of these packages, each in a process of its own; return the results by normalized name.

    The parts of a package that takes too long, or ends the process, count as broken.
    """
    return {name: _try(folder, name, min(seconds, SECONDS)) for name in names}


def _try(folder: Path, name: str, seconds: float) -> Tried:
    with tempfile.TemporaryDirectory(prefix="goclaw-plugin-") as scratch:
        result = Path(scratch, "result")
        command = [sys.executable, "-I", "-c", _PROGRAM, json.dumps(own_path()), str(folder), name, str(result)]
        env = {key: value for key, value in environment(Path(scratch)).items() if not key.startswith(("UV_", "GIT_"))}
        try:
            done = subprocess.run(
                command,
                cwd=scratch,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Tried(faults=(f"its import does not finish within {seconds:.0f} s",))
        try:
            said = json.loads(result.read_bytes())
        except (OSError, ValueError):
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            ended = f"its import ends the process (exit code {done.returncode})"
            return Tried(faults=(": ".join([ended, *last]),))
        return Tried(tuple(said["parts"]), tuple(said["faults"]))


def main() -> None:
    """Try out one package in this process: the folder, its name and the file for the result are arguments."""
    folder, name, result = sys.argv[2:5]
    site.addsitedir(folder)  # with what .pth files name
    found = try_package(folder, name)
    beside = Path(f"{result}.new")
    beside.write_text(json.dumps(asdict(found)))
    beside.replace(result)
    os._exit(0)  # a thread of the package must not hold up the end


def try_package(folder: str, name: str) -> Tried:
    """Import the parts of a package in `folder`, which is on the path."""
    packages = {normalize(each.name): each for each in distributions(path=[folder])}
    if name not in packages:
        return Tried(faults=("it is missing after the installation",))
    points = _points(packages[name])
    if not points:
        return Tried(
            faults=(f"it has no entry points in the group `{GROUP}`, so it is not a plugin (docs/plugins.md)",)
        )
    others = {point.name: other for other, each in packages.items() if other != name for point in _points(each)}
    faults = []
    for point in points:
        if fault := _fault(point) or _conflict_of(point.name, others):
            faults.append(f"{point.name}: {fault}")
    return Tried(tuple(point.name for point in points), tuple(faults))


def _points(package: Distribution) -> list[EntryPoint]:
    return sorted((point for point in package.entry_points if point.group == GROUP), key=lambda point: point.name)


def _conflict_of(line: str, others: Mapping[str, str]) -> str:
    section, _, name = line.partition(".")
    if name in _TAKEN.get(section, ()):
        return "the name is taken: built in"
    if line in others and section in {*_TAKEN, "agents", "toolsets"}:
        return f"the name is taken: by {others[line]}"
    return ""


def _fault(point: EntryPoint) -> str:
    """Import one part; return why it cannot be used."""
    section, dot, name = point.name.partition(".")
    if section not in catalog.KINDS or not dot or not name:
        meant = closest(section, list(catalog.KINDS))
        hint = f"did you mean `{meant}.{name}`?" if meant else f"there are {', '.join(catalog.KINDS)}"
        return f"should be `section.name`, but there is no section {section!r}; {hint}"
    try:
        part: Any = load(point.value, load(catalog.KINDS[section], type))
    except (Exception, SystemExit) as error:
        return fault_of(error)
    called = {"tools": "spec.name", "agents": "name", "toolsets": "name"}.get(section)
    says = part.spec.name if called == "spec.name" else part.name if called else name
    return f"it calls itself {says}, not {name}" if says != name else ""

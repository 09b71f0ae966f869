"""The image of the Dockerfile without an engine: its instructions are carried out in a root folder of their own.

What a container engine brings is taken from this machine: its system (`/usr`), its Python at `/usr/local`, and, because
nothing is downloaded, the locked packages of the Python that runs the tests. Everything else is what the Dockerfile
says: what is copied, how it is built, who runs it, with which variables, from where. Needs root: it mounts and changes
its root folder, each time in a mount namespace of its own.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import aiohttp

ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 60
DEVICES = ("null", "zero", "full", "random", "urandom")
BASE_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of Debian's images."""
NOTHING: Mapping[str, str] = {}
LOCK = "requirements-postgres.lock"
"""The packages of the image: those of GoClaw and of its extra `postgres`."""
NEEDS_NETWORK = re.compile(r"-r (requirements[\w-]*\.lock)")


class NotPossible(Exception):
    """This machine cannot play the engine; the message says why."""


@dataclass
class Stage:
    """One image of the Dockerfile."""

    name: str
    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": BASE_PATH})
    folder: str = "/"
    user: str = "0:0"
    volumes: list[str] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)
    """What is kept for the one who runs it: ENTRYPOINT, CMD, HEALTHCHECK, STOPSIGNAL."""

    def path(self, name: str) -> Path:
        """Where a path of the image is on this machine."""
        return self.root / os.path.normpath(os.path.join(self.folder, name)).lstrip("/")  # noqa: PTH118 -- no such file

    def set_variables(self, text: str) -> None:
        """ENV."""
        for setting in shlex.split(text):
            variable, _, value = setting.partition("=")
            self.environment[variable] = re.sub(r"\$(\w+)", lambda found: self.environment[found[1]], value)

    def command(self, instruction: str) -> list[str]:
        """ENTRYPOINT or CMD in the form of a list."""
        found = json.loads(self.said[instruction])
        assert isinstance(found, list)
        return found


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """The instructions of a Dockerfile, continued lines joined."""
    joined = ""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        joined += line.strip().removesuffix("\\")
        if not line.rstrip().endswith("\\"):
            name, _, rest = joined.partition(" ")
            yield name.upper(), rest.strip()
            joined = ""


def context(into: Path) -> Path:
    """What .dockerignore lets through to the build."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*", "everything is left out, except what is named"
    left_out = shutil.ignore_patterns(*(line.removeprefix("**/") for line in lines[1:] if not line.startswith("!")))
    into.mkdir()
    for name in (line.removeprefix("!") for line in lines if line.startswith("!")):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, into / name, ignore=left_out)
        else:
            shutil.copy(ROOT / name, into / name)
    return into


def build(folder: Path) -> Stage:
    """Carry out the Dockerfile and return its last image.

    Raises:
        NotPossible: no root here, or the machine lacks what this needs.
    """
    if os.geteuid() != 0:
        raise NotPossible("needs root, to change its root folder")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        raise NotPossible("this machine gives no mount namespaces")
    sources, stages = context(folder / "context"), dict[str, Stage]()
    for name, rest in instructions((ROOT / "Dockerfile").read_text()):
        if name == "FROM":
            alias = rest.partition(" AS ")[2] or "last"
            stages[alias] = Stage(alias, base(folder / alias))
        else:
            carry_out(list(stages.values())[-1], name, rest, sources, stages)
    last = list(stages.values())[-1]
    lend_packages(last)
    return last


def carry_out(stage: Stage, name: str, rest: str, sources: Path, stages: Mapping[str, Stage]) -> None:
    """One instruction."""
    match name:
        case "ENV":
            stage.set_variables(rest)
        case "WORKDIR":
            stage.folder = os.path.join(stage.folder, rest)  # noqa: PTH118 -- a path of the image
            stage.path(".").mkdir(parents=True, exist_ok=True)
        case "COPY":
            *what, target = shlex.split(rest)
            place = stages[what.pop(0).removeprefix("--from=")].root if what[0].startswith("--from=") else sources
            for item in what:
                copy(place / item.lstrip("/"), stage.path(target), target)
        case "RUN":
            for command in rest.split("&&"):
                execute(stage, command.strip())
        case "USER":
            stage.user = rest
        case "VOLUME":
            stage.volumes.append(rest)
        case "ENTRYPOINT" | "CMD" | "HEALTHCHECK" | "STOPSIGNAL":
            stage.said[name] = rest
        case _:
            raise AssertionError(f"{name} is not known here; teach it to {Path(__file__).name}")


def copy(source: Path, target: Path, written: str) -> None:
    """COPY of one file or folder."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy(source, target / source.name if written.endswith("/") else target)


def execute(stage: Stage, command: str) -> None:
    """One command of RUN, as it is written; those that would download something only show that they could begin."""
    if command.startswith("apt-get "):
        return  # this machine's programs stand for those of the base image
    if locks := NEEDS_NETWORK.findall(command):
        missing = [name for name in locks if not stage.path(name).exists()]
        assert not missing, f"{command}: {missing} was not copied"
        return
    uv = find_uv()
    path = f"/opt/uv:{stage.environment['PATH']}"
    done = subprocess.run(
        inside(stage, ["sh", "-ec", command], environment={"PATH": path}, binds={str(uv.parent): "/opt/uv"}),
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def inside(
    stage: Stage,
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    binds: Mapping[str, str] = NOTHING,
    read_only: bool = False,
) -> list[str]:
    """The command line that runs `command` in the image, with these folders of this machine in it.

    With `read_only` it runs as a hardened container does: as the image's user, without capabilities, on a root folder
    that cannot be written.
    """
    root = shlex.quote(str(stage.root))
    lines = ["set -e", f"mount --bind {root} {root}"]
    lines += [f"mount --rbind -o ro {shlex.quote(source)} {root}{target}" for source, target in machine(stage)]
    if read_only:
        lines += [f"mount -o remount,bind,ro {root}", f"mount -t tmpfs -o noexec,nosuid,nodev tmpfs {root}/tmp"]
    lines += [f"mount --bind {shlex.quote(source)} {root}{target}" for source, target in binds.items()]
    user, _, group = stage.user.partition(":")
    hardened = (
        f"setpriv --reuid {user} --regid {group} --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs"
        if read_only
        else ""
    )
    settings = shlex.join(f"{name}={value}" for name, value in {**stage.environment, **environment}.items())
    lines.append(
        f"exec chroot {root} env -i -C {shlex.quote(stage.folder)} {settings} {hardened} {shlex.join(command)}"
    )
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(lines)]


def machine(stage: Stage) -> Iterator[tuple[str, str]]:
    """What of this machine stands for the base image: folders and where they are in it."""
    yield "/usr", "/usr"
    if sys.base_prefix != "/usr":
        yield sys.base_prefix, "/usr/local"
    if Path("/usr/bin/bwrap").exists():
        yield "/dev/null", "/usr/bin/bwrap"  # not in the image
    yield "/proc", "/proc"
    yield from ((f"/dev/{name}", f"/dev/{name}") for name in DEVICES)
    if (stage.root / "packages").exists():
        yield str(packages()), "/packages"


def base(root: Path) -> Path:
    """A root folder like that of the base image."""
    for name in ("usr", "proc", "dev", "tmp", "run/secrets", "etc", "root", "opt/uv"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name in ("bin", "sbin", "lib", "lib64"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    for name in DEVICES:
        (root / "dev" / name).touch()
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc" / "group").write_text("root:x:0:\n")
    # As in Python's images: its library lies beside it.
    (root / "etc" / "ld.so.conf").write_text("/usr/local/lib\n")
    stage = Stage("base", root)
    subprocess.run(inside(stage, ["ldconfig"], environment={}), check=True, timeout=BUILD_SECONDS)
    return root


def lend_packages(stage: Stage) -> None:
    """Let the image's Python find the packages of the lock that the image has, and no others, of this Python."""
    for name in ("packages", "locked"):
        (stage.root / name).mkdir()
    for name in re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / LOCK).read_text(), re.MULTILINE):
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:
            continue  # of another system
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            link = stage.root / "locked" / top
            if not link.is_symlink():
                link.symlink_to(f"/packages/{top}")
    (site,) = stage.root.glob("app/lib/python3*/site-packages")
    (site / "locked.pth").write_text("/locked\n")


def packages() -> Path:
    """Where the packages of the Python that runs the tests are."""
    return Path(aiohttp.__file__).parents[1]


def find_uv() -> Path:
    """The pinned uv that set this environment up."""
    ours = ROOT / ".tools" / "uv" / "bin" / "uv"
    found = ours if ours.exists() else Path(shutil.which("uv") or "")
    if not found.is_file():
        raise NotPossible("there is no uv here")
    return found

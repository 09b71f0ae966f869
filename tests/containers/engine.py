"""Debian's Docker engine for tests: a daemon with its own data root, socket, network and processes.

It runs in namespaces of its own, so it touches neither the machine's firewall nor another engine, and whatever it has
started ends with it. `slirp4netns` connects its network to the machine's without a firewall rule: containers reach the
machine's loopback at `HOST`, the machine reaches published ports through `Engine.enter`. No image is ever pulled.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from goclaw.common.core.clock import RealClock

CLOCK = RealClock()
ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".tools" / "containers"
"""Downloads and base images; safe to delete."""
HOST = "10.0.2.2"
"""Where containers reach the machine's 127.0.0.1 (a constant of slirp4netns)."""
START_SECONDS = 60.0
STOP_SECONDS = 30.0
COMMAND_SECONDS = 300.0
LEFT_SECONDS = 4 * 3600
"""No run takes so long: an older folder belongs to one that was killed."""
PROGRAMS = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "slirp4netns": "slirp4netns",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "debootstrap": "debootstrap",
}
"""What the lane needs from Debian: program and package."""
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""Debian's own client is preferred to another one in /usr/local: it has the daemon's version."""


class Missing(Exception):
    """This machine cannot run the engine; the message says what it lacks."""


@dataclass
class Engine:
    """A running daemon."""

    folder: Path
    process: subprocess.Popen[bytes]
    daemon_pid: int

    @property
    def socket(self) -> Path:
        """The socket of its API."""
        return self.folder / "docker.sock"

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which `docker` and `docker compose` talk to this daemon."""
        kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
        return kept | {
            "PATH": f"{SYSTEM_PATH}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "DOCKER_HOST": f"unix://{self.socket}",
            "DOCKER_CONFIG": str(self.folder / "client"),
            "DOCKER_BUILDKIT": "1",
            "BUILDKIT_PROGRESS": "plain",
        }

    def run(
        self, *command: str, folder: Path = ROOT, text: str = "", seconds: float = COMMAND_SECONDS, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the client's side, such as `docker ps`, with `text` as its input.

        Raises:
            AssertionError: it failed, and `check` is set; the message has its output.
        """
        ran = subprocess.run(
            command,
            cwd=folder,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert not check or ran.returncode == 0, f"{command} exited {ran.returncode}\n{ran.stdout}{ran.stderr}"
        return ran

    def enter(self, *command: str) -> list[str]:
        """Return the command line that runs `command` in the engine's network and among its processes.

        That is where published ports are, and where the process ids are those that `docker inspect` prints.
        """
        return ["nsenter", "--target", str(self.daemon_pid), "--net", "--pid", "--mount", *command]


@contextmanager
def running_engine(data_root: Path | None = None) -> Iterator[Engine]:
    """Start the daemon, and end it with everything that it has started.

    Args:
        data_root: where it keeps images and volumes, if they are to stay; otherwise a folder that is deleted.

    Raises:
        Missing: no root, or a program is not installed.
    """
    check_machine()
    prepare_cache()
    # Short, because a socket's path has 107 bytes at most.
    folder = Path(tempfile.mkdtemp(prefix="engine-"))
    data = data_root or Path(tempfile.mkdtemp(prefix="data-", dir=CACHE))
    try:
        with _daemon(folder, data) as engine:
            yield engine
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if not data_root:
            shutil.rmtree(data, ignore_errors=True)


def prepare_cache() -> None:
    """Make the folder of downloads and images, without what runs that were killed have left in it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    for left in (*CACHE.glob("data-*"), *CACHE.glob("root-*")):
        if CLOCK.now() - left.stat().st_mtime > LEFT_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def check_machine() -> None:
    """Return if the engine can run here.

    Raises:
        Missing: no root, or a program is not installed.
    """
    if os.geteuid() != 0:
        raise Missing("needs root: it starts a container engine")
    path = f"{SYSTEM_PATH}:{os.environ['PATH']}"
    if lacking := sorted({package for program, package in PROGRAMS.items() if not shutil.which(program, path=path)}):
        raise Missing(f"not installed: {' '.join(lacking)}")


@contextmanager
def _daemon(folder: Path, data: Path) -> Iterator[Engine]:
    options = ["--host", f"unix://{folder}/docker.sock", "--data-root", str(data), "--exec-root", f"{folder}/run"]
    # An empty /run hides the machine's own containerd and Docker sockets.
    script = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec dockerd "$@"'
    # A test run that is killed takes the daemon along.
    isolated = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]
    command = [*isolated, "sh", "-c", script, "sh", *options, "--pidfile", f"{folder}/pid"]
    path = f"{SYSTEM_PATH}:{os.environ['PATH']}"
    with (folder / "dockerd.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=os.environ | {"PATH": path}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        engine = Engine(folder, process, _child(process))
        with _network(engine):
            _wait(engine)
            yield engine
    finally:
        _end(process)


@contextmanager
def _network(engine: Engine) -> Iterator[None]:
    """Connect the daemon's network to the machine's."""
    command = ["slirp4netns", "--configure", "--mtu=65520", str(engine.daemon_pid), "tap0"]
    with (engine.folder / "network.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait(STOP_SECONDS)


def _child(process: subprocess.Popen[bytes]) -> int:
    """Return the pid of the daemon, which `unshare` has forked."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return int(_until(lambda: children.read_text().split(), process, "no daemon was forked")[0])


def _wait(engine: Engine) -> None:
    """Return when the daemon answers and its network is there."""

    def ready() -> list[str]:
        linked = subprocess.run(engine.enter("ip", "-o", "addr", "show", "tap0"), capture_output=True, text=True)
        if "10.0.2.100" not in linked.stdout or not engine.socket.exists():
            return []
        said = engine.run("docker", "version", "--format", "{{.Server.Version}}", check=False)
        return said.stdout.split() if said.returncode == 0 else []

    try:
        _until(ready, engine.process, "the daemon does not answer")
    except Missing as error:
        raise Missing(f"{error}:\n{(engine.folder / 'dockerd.log').read_text()[-2_000:]}") from None


def _until(found: Callable[[], Sequence[str]], process: subprocess.Popen[bytes], otherwise: str) -> Sequence[str]:
    deadline = CLOCK.monotonic() + START_SECONDS
    while CLOCK.monotonic() < deadline and process.poll() is None:
        if result := found():
            return result
        subprocess.run(["sleep", "0.1"], check=True)
    raise Missing(otherwise)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the daemon: it stops its containers; if it does not, the kernel ends its process namespace."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    for pid in children.read_text().split() if process.poll() is None else []:
        os.kill(int(pid), signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)

"""A newly installed Debian in a container: Python, a plain user without sudo, and if wanted systemd as process 1.

What people get from an installer, and no more: a test installs the packages that GoClaw's set-up names. The checkout is
copied in as git has it.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from goclaw.common.core.clock import RealClock
from tests.containers.engine import ROOT, Engine
from tests.containers.images import Base, load

USER, UID = "ann", 1000
SUITES = ("bookworm", "trixie")
SYSTEMD = ("dbus", "dbus-user-session", "libpam-systemd", "systemd", "systemd-sysv")
AS_PROCESS_1 = (
    *("--cap-add=SYS_ADMIN", "--cap-add=SYS_PTRACE", "--cap-add=NET_ADMIN"),
    *(f"--security-opt={name}=unconfined" for name in ("seccomp", "apparmor", "systempaths")),
    *("--cgroupns=host", "--volume=/sys/fs/cgroup:/sys/fs/cgroup:rw"),
    *("--tmpfs=/run", "--tmpfs=/run/lock", "--tmpfs=/tmp:exec"),
)
"""The rights that systemd needs. Not --privileged, which asks for every right and fails where the machine lacks one."""
SET_UP_SECONDS = 600.0
"""An environment from the package index, on a machine that does other work, too."""
BOOT_SECONDS = 60.0
CLOCK = RealClock()


def debian(suite: str) -> Base:
    """Return a Debian of this suite, with systemd, Python without pip and venv, and one plain user."""
    return Base(
        f"goclaw-tests-debian:{suite}",
        ("ca-certificates", "python3", *SYSTEMD),
        f"useradd --create-home --uid {UID} --shell /bin/bash {USER}",
        ("STOPSIGNAL SIGRTMIN+3",),
        suite=suite,
    )


@dataclass(frozen=True)
class Machine:
    """A running container that is a machine of its own to those inside."""

    engine: Engine
    name: str

    def run(
        self, script: str, user: str = "root", seconds: float = 120.0, *, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a script of the shell as this user, in their home folder.

        Raises:
            AssertionError: it failed, and `check` is set.
        """
        home = "/root" if user == "root" else f"/home/{user}"
        command = ["docker", "exec", "--user", user, "--workdir", home, "--env", f"HOME={home}", self.name]
        return self.engine.run(*command, "sh", "-c", script, seconds=seconds, check=check)

    def until(self, script: str, user: str = "root", seconds: float = BOOT_SECONDS) -> str:
        """Run a script until it succeeds; return its output.

        Raises:
            AssertionError: it does not in time.
        """
        deadline = CLOCK.monotonic() + seconds
        while (done := self.run(script, user, check=False)).returncode:
            assert CLOCK.monotonic() < deadline, f"{script}: {done.stdout}{done.stderr}"
            subprocess.run(["sleep", "0.5"], check=True)
        return done.stdout

    def copy_checkout(self, user: str) -> str:
        """Put this checkout into the home folder of a user, without what set-ups made; return its place."""
        place = f"{'/root' if user == 'root' else f'/home/{user}'}/goclaw"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        names = b"\0".join(name for name in listed.split(b"\0") if (ROOT / name.decode()).is_file())
        with tempfile.TemporaryDirectory(dir=self.engine.folder) as folder:
            packed = Path(folder) / "checkout.tar"
            packing = ["tar", "--create", f"--file={packed}", "--null", "--files-from=-"]
            subprocess.run(packing, cwd=ROOT, input=names, check=True)
            self.engine.run("docker", "cp", str(packed), f"{self.name}:/checkout.tar")
        unpack = f"mkdir {place} && tar -xf /checkout.tar -C {place} && chown -R {user}: {place} && rm /checkout.tar"
        self.run(unpack)
        return place


@contextmanager
def running_machine(engine: Engine, suite: str, *, systemd: bool = False) -> Iterator[Machine]:
    """Start a new machine; it is gone at the end with all that was written.

    Args:
        engine: what runs it.
        suite: the release of Debian.
        systemd: whether systemd runs in it; it has rights over the machine that runs the test, then.
    """
    load(engine, debian(suite))
    options = AS_PROCESS_1 if systemd else ("--init",)
    first = ["/sbin/init"] if systemd else ["sleep", "infinity"]
    name = f"debian-{suite}-{'systemd' if systemd else 'plain'}"
    engine.run("docker", "run", "--detach", "--network=host", f"--name={name}", *options, debian(suite).name, *first)
    machine = Machine(engine, name)
    try:
        if systemd:
            machine.until("systemctl is-system-running | grep -E 'running|degraded'")
        yield machine
    finally:
        # A development environment is tens of thousands of files.
        engine.run("docker", "rm", "--force", "--volumes", name, seconds=SET_UP_SECONDS)

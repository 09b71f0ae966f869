"""The Dockerfile without root: a plain user builds its image with buildah and runs it with podman.

Both use the machine's network: a network of one's own needs `/dev/net/tun`, which not every machine opens to users.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from goclaw.common.core.clock import RealClock
from tests.containers.engine import ROOT, Missing
from tests.containers.images import ensure_tar, python

pytestmark = [pytest.mark.containers, pytest.mark.long, pytest.mark.timeout(1800)]

USER = f"goclaw-{os.getpid()}"
"""A user of this run: one that was killed leaves its own."""
HOME = Path(tempfile.gettempdir(), USER)
# The machine's TMPDIR may be closed to the user.
ENVIRONMENT = (f"HOME={HOME}", f"TMPDIR={HOME}", f"XDG_RUNTIME_DIR={HOME}/run", "STORAGE_DRIVER=overlay")
PROGRAMS = ("podman", "buildah", "newuidmap", "fuse-overlayfs", "useradd")
IMAGE, NAME = "localhost/goclaw:rootless", "goclaw-rootless"
BUILD_SECONDS = 1_200
HEALTHY_SECONDS = 300.0
"""A check that takes more than ten seconds fails, which happens on a machine that does other work, too."""
CLOCK = RealClock()


@dataclass(frozen=True)
class PlainUser:
    """A user of this machine with a home folder and no rights."""

    name: str

    def run(self, *command: str, seconds: float = 120, content: bytes = b"") -> str:
        """Run a command as this user, with `content` as its input; return what it prints.

        Raises:
            AssertionError: it failed.
        """
        words = ["runuser", "-u", self.name, "--", "env", *ENVIRONMENT, *command]
        done = subprocess.run(words, cwd=HOME, input=content, capture_output=True, timeout=seconds, check=False)
        said, errors = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
        assert done.returncode == 0, f"{command} exited {done.returncode}\n{said[-3_000:]}{errors[-3_000:]}"
        return said


@pytest.fixture(scope="module")
def user() -> Iterator[PlainUser]:
    """A plain user with user ids for containers; gone at the end with all images."""
    if lacking := [program for program in PROGRAMS if not shutil.which(program)]:
        pytest.skip(f"not installed: {' '.join(lacking)}")
    subprocess.run(["useradd", "--create-home", "--home-dir", HOME, USER], check=True)
    made = PlainUser(USER)
    try:
        made.run("mkdir", "--mode=0700", "run")
        yield made
    finally:
        # It ends podman's process that keeps the namespaces: no user is deleted who has a process.
        made.run("podman", "system", "migrate")
        subprocess.run(["userdel", USER], check=True)
        # Files of containers belong to other ids: root removes them.
        shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="module")
def image(user: PlainUser) -> str:
    """The image of the Dockerfile, built by the user."""
    base = python()
    try:
        packed = ensure_tar(base)
    except Missing as missing:
        pytest.skip(str(missing))
    user.run("podman", "import", "-", "localhost/files-of-python", content=packed.read_bytes(), seconds=BUILD_SECONDS)
    lines = "\n".join(("FROM localhost/files-of-python", *base.instructions))
    user.run("buildah", "bud", "--tag", f"localhost/{base.name}", "-", content=lines.encode())
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    packing = ["tar", "--create", f"--file={HOME}/checkout.tar", "--ignore-failed-read", "--null", "--files-from=-"]
    subprocess.run(packing, cwd=ROOT, input=listed, check=True)
    user.run("sh", "-c", "mkdir checkout && tar -xf checkout.tar -C checkout")
    # Podman's own format of images has no HEALTHCHECK.
    options = ["--network=host", "--format=docker", f"--tag={IMAGE}"]
    user.run("buildah", "bud", *options, "checkout", seconds=BUILD_SECONDS)
    return IMAGE


def test_a_plain_user_runs_a_healthy_gateway_that_answers_and_executes(user: PlainUser, image: str) -> None:
    user.run("podman", "run", "--detach", "--network=host", "--volume=data:/data", f"--name={NAME}", image)
    try:
        healthy_in_time(user)
        assert "You said: hi" in user.run("podman", "exec", NAME, "goclaw", "send", "hi")
        verbose = "PYTHONVERBOSE=1 goclaw --version 2>&1"
        imported = user.run("podman", "exec", NAME, "sh", "-c", verbose)
        assert "code object from" in imported and "bytecode is stale" not in imported
        script = "id -u; touch x; chmod 600 x; stat -c %a x"
        answer = user.run("podman", "exec", NAME, "goclaw", "send", f'/tool exec {{"command": "{script}"}}')
        assert "10001\n600\nexit code: 0" in answer
        user.run("podman", "stop", "--time=20", NAME)
        assert user.run("podman", "inspect", "--format={{.State.ExitCode}}", NAME) == "0\n"
    finally:
        user.run("podman", "rm", "--force", NAME)


def healthy_in_time(user: PlainUser) -> None:
    """Run the image's own check until it succeeds; podman's timer for it needs a systemd of the user."""
    deadline = CLOCK.monotonic() + HEALTHY_SECONDS
    while True:
        try:
            user.run("podman", "healthcheck", "run", NAME)
            return
        except AssertionError:
            if CLOCK.monotonic() > deadline:
                raise
            subprocess.run(["sleep", "1"], check=True)

"""docker-compose.yml on a real engine: what docs/docker.md says, and what happens when something is killed."""

import json
import re
import subprocess
import zipfile
from base64 import b64encode
from io import BytesIO

import pytest

from goclaw.common.core.clock import RealClock
from tests.containers.engine import ROOT, Engine
from tests.containers.project import Project

pytestmark = [pytest.mark.long, pytest.mark.containers, pytest.mark.timeout(1800)]
PAGE = (ROOT / "docs" / "docker.md").read_text()
GIT = "git -c init.defaultBranch=main -c user.name=a -c user.email=a@b"


def test_it_answers_and_the_doctor_has_no_wrong_advice(project: Project) -> None:
    assert "You said: hello" in project.send("hello")
    said = project.inside("goclaw", "doctor")
    assert "bubblewrap" not in said and "goclaw restart" not in said and "is empty" not in said
    assert "cannot be changed" not in said, "the broker changes modes"
    assert "docker compose restart gateway" in said


def test_the_engine_finds_it_healthy(project: Project) -> None:
    project.compose("up", "--detach", "--wait")
    [container] = project.containers()
    assert project.inspect(container)["State"]["Health"]["Status"] == "healthy"


def test_exec_clones_installs_and_changes_modes(project: Project) -> None:
    assert "\n600\n" in project.execute("touch x && chmod 600 x && stat -c %a x")
    made = f"{GIT} init -q a && cd a && echo hi > f && git add f && {GIT} commit -qm one"
    line = f"{made} && cd .. && git clone -q a b && cat b/f"
    assert "\nhi\n" in project.execute(line)
    project.inside("sh", "-c", "base64 -d > /data/workspace/tried-1-py3-none-any.whl", text=wheel())
    assert "\n42\n" in project.execute(
        "/usr/local/bin/pip install -q --no-index --target lib ./tried-1-py3-none-any.whl && PYTHONPATH=lib python3 -c "
        "'import tried; print(tried.answer)'"
    )
    assert "\nexit code: 0" in project.execute("mkdir t && tar cf t.tar x && tar xpf t.tar -C t && curl --version")
    assert "goclaw gateway" in project.inside("ps", "ax"), "a person may look; a command may not read /proc"


def test_nothing_outside_the_workspace_changes_its_mode(project: Project) -> None:
    before = project.inside("stat", "-c", "%a %n", "/data/state", "/data/state/goclaw.db", "/data")
    said = project.execute("chmod 777 /data/state /data/state/goclaw.db /data; id -u")
    assert said.count("Operation not permitted") == 3
    assert project.inside("stat", "-c", "%a %n", "/data/state", "/data/state/goclaw.db", "/data") == before


def test_limits_are_in_force_and_the_root_is_read_only(project: Project) -> None:
    [container] = project.containers()
    host = project.inspect(container)["HostConfig"]
    assert (host["Memory"], host["PidsLimit"], host["ReadonlyRootfs"]) == (2 << 30, 512, True)
    limit = "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null"
    assert project.inside("sh", "-c", f"{limit} || cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/memory.max").split() == [
        "512",
        str(2 << 30),
    ]
    assert project.inside(
        "sh", "-c", "for f in / /app /usr /etc; do touch $f/x 2>/dev/null && echo $f; done; id -u"
    ) == ("10001\n")


def test_nothing_inside_ends_or_restarts_the_container_unnoticed(project: Project) -> None:
    for command in ("restart", "stop"):
        done = project.engine.run(
            "docker", "compose", "exec", "-T", "gateway", "goclaw", command, folder=project.folder, check=False
        )
        assert done.returncode != 0 and f"docker compose {command} gateway" in done.stderr, done
    assert project.inside("goclaw", "status")


def test_a_killed_process_is_restarted_and_what_it_was_doing_goes_on(project: Project, engine: Engine) -> None:
    [container] = project.containers()
    message = '/tool exec {"command": "echo begun > begun; sleep 8; echo ended"}'
    asked = subprocess.Popen(
        ["docker", "exec", container, "goclaw", "send", message], env=engine.environment, stdout=subprocess.DEVNULL
    )
    try:
        _until_there(project, "/data/workspace/begun")
        project.kill_daemon(container)
    finally:
        asked.wait(60)
    project.wait_healthy(container)
    assert project.inspect(container)["RestartCount"] >= 1
    history = project.send("are you there?")
    assert "You said: are you there?" in history


def test_a_killed_container_stays_down_until_it_is_started_and_has_all(project: Project, engine: Engine) -> None:
    project.send("remember the pelican")
    [container] = project.containers()
    engine.run("docker", "kill", container)
    assert not project.inspect(container)["State"]["Running"]
    project.up()
    assert int(json.loads(project.inside("goclaw", "status", "--json"))["messages"]) >= 4


def test_the_backup_of_the_page_is_restored_as_it_says(project: Project) -> None:
    (block,) = re.findall(r"^## Backup and restore\n.*?```sh\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    made, brought = block.strip().split("\n\n")
    project.shell(made)
    project.inside("touch", "/data/workspace/later")
    project.shell(brought)
    project.up()
    assert project.inside("sh", "-c", "ls /data/workspace").find("later") < 0


def test_a_new_container_has_the_zone_and_goes_on(project: Project) -> None:
    project.shell("docker compose up --detach --wait", TZ="Asia/Tokyo")
    assert project.inside("date", "+%Z") == "JST\n"
    assert "GoClaw" in project.compose("logs", "gateway")
    assert project.inside("goclaw", "logs")


def test_a_volume_of_another_user_is_refused_in_words(project: Project, engine: Engine) -> None:
    image = project.inspect(project.containers()[0])["Image"]
    engine.run(
        "docker", "run", "--rm", "--user", "0", "--entrypoint", "chown", "-v", "odd:/data", image, "-R", "0:0", "/data"
    )
    done = engine.run("docker", "run", "--rm", "-v", "odd:/data", image, check=False)
    engine.run("docker", "volume", "rm", "odd")
    assert done.returncode == 1 and "/data/state" in done.stderr and "Permission denied" in done.stderr


def test_it_stops_within_its_grace_period(project: Project) -> None:
    clock = RealClock()
    project.up()
    began = clock.monotonic()
    project.compose("stop", "gateway")
    assert clock.monotonic() - began < 25
    assert project.inspect(project.containers()[0])["State"]["ExitCode"] == 0


def wheel() -> str:
    """A package of one module, in base64."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("tried.py", "answer = 42\n")
        archive.writestr("tried-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: tried\nVersion: 1\n")
        archive.writestr("tried-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("tried-1.dist-info/RECORD", "")
    return b64encode(file.getvalue()).decode()


def _until_there(project: Project, path: str) -> None:
    clock = RealClock()
    deadline = clock.monotonic() + 60
    while clock.monotonic() < deadline:
        if project.inside("sh", "-c", f"test -e {path} && echo yes || true"):
            return
        subprocess.run(["sleep", "0.2"], check=True)
    raise AssertionError(f"{path} never came")

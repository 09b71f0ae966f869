"""`goclaw service` and a real systemd: process 1 of a Debian in a container, the unit of a user and of the machine.

The tests are one machine's life, in order: each begins with a service that runs.
"""

import json
from collections.abc import Iterator

import pytest

from goclaw.program.cli.systemd import Manager
from tests.containers.engine import Engine
from tests.containers.machine import SET_UP_SECONDS, USER, Machine, running_machine

pytestmark = [pytest.mark.containers, pytest.mark.long, pytest.mark.promise("P-service"), pytest.mark.timeout(1800)]

WATCHDOG_SECONDS = 4
"""Instead of the minute of the unit: a drop-in as `systemctl edit` writes it."""
STOP_SECONDS = 15.0
"""The grace of ten seconds, and what `docker exec` takes."""
BACK_SECONDS = 60.0
CHECKOUT = f"/home/{USER}/goclaw"
PROGRAM = f"{CHECKOUT}/.venv/bin/goclaw"
STATE = f"/home/{USER}/.goclaw"
REMOTE = """
set -e
cd goclaw
git config --global user.email ann@example.org
git config --global user.name Ann
git init --quiet --initial-branch main
git add --all
git commit --quiet --message one
git tag v0.1.0
git clone --quiet --bare . ../origin.git
git remote add origin ../origin.git
git clone --quiet ../origin.git ../next
"""
"""A repository that the checkout was cloned from."""
RELEASE = """
set -e
cd next
sed -i 's/^version = .*/version = "{0}"/' pyproject.toml
sed -i 's/^__version__ = .*/__version__ = "{0}"/' goclaw/__init__.py
git commit --quiet --all --message {0}
git tag v{0}
git push --quiet origin main v{0}
"""
"""A newer version in it."""


class Service:
    """The daemon as one systemd runs it."""

    def __init__(self, machine: Machine, manager: Manager) -> None:
        self.machine = machine
        self.manager = manager
        is_system = manager is Manager.SYSTEM
        self.user = "root" if is_system else USER
        self.options = " --system" if is_system else ""
        self._prefix = "XDG_RUNTIME_DIR=/run/user/1000 "

    def goclaw(self, arguments: str, *, seconds: float = 120.0, check: bool = True) -> str:
        """What a command prints, as the one who has installed the service."""
        done = self.machine.run(f"GOCLAW_STATE_DIR={STATE} {PROGRAM} {arguments}", self.user, seconds, check=check)
        return done.stdout + done.stderr

    def systemctl(self, arguments: str, seconds: float = 120.0) -> str:
        """What `systemctl` prints."""
        command = " ".join((*self.manager.command, arguments))
        return self.machine.run(self._prefix + command, self.user, seconds).stdout.strip()

    def property(self, name: str) -> str:
        """A property of the unit."""
        return self.systemctl(f"show goclaw --property={name} --value")

    def send(self, signal: str) -> str:
        """Send a signal to the daemon; return its pid."""
        pid = self.property("MainPID")
        assert pid != "0"
        self.machine.run(f"kill -{signal} {pid}")
        return pid

    def wait_for_another(self, pid: str) -> None:
        """Wait until the unit is active with another process."""
        command = " ".join((*self.manager.command, "show goclaw --property=MainPID,ActiveState"))
        script = f"found=$({self._prefix}{command}); case $found in *MainPID={pid}*) false;; esac && case $found in"
        self.machine.until(f"{script} *ActiveState=active*) true;; *) false;; esac", self.user, BACK_SECONDS)

    def answer(self, text: str = "hi") -> str:
        """What the agent answers."""
        return self.machine.run(f"{PROGRAM} send '{text}'", USER).stdout

    def journal(self, options: str = "") -> list[dict[str, str]]:
        """Each entry of the unit in the journal."""
        command = " ".join((*self.manager.journal, "--output=json --no-pager --quiet", options))
        return [json.loads(line) for line in self.machine.run(command, self.user).stdout.splitlines()]


@pytest.fixture(scope="module")
def machine(engine: Engine) -> Iterator[Machine]:
    """A machine where Ann has set GoClaw up in her home folder, and where her systemd runs from boot on."""
    with running_machine(engine, "bookworm", systemd=True) as made:
        packages = "apt-get update -qq && apt-get install -yqq --no-install-recommends python3-venv git"
        made.run(f"{packages} && loginctl enable-linger {USER}", seconds=SET_UP_SECONDS)
        made.copy_checkout(USER)
        made.run(f"{CHECKOUT}/scripts/run version", USER, SET_UP_SECONDS)
        # Before root installs anything: the machine's unit runs as the folder's owner.
        made.run(f"mkdir -m 700 {STATE}", USER)
        made.until(f"test -S /run/user/1000/bus || {{ loginctl user-status {USER}; false; }}")
        yield made


@pytest.fixture(scope="module", params=list(Manager))
def service(machine: Machine, request: pytest.FixtureRequest) -> Iterator[Service]:
    """A service that was just installed; it is removed at the end, and nothing of it is left."""
    made = Service(machine, request.param)
    assert "starts it when the machine starts" in made.goclaw(f"service install{made.options}")
    yield made
    assert "removed" in made.goclaw("service remove")
    assert machine.run("find / -xdev -name 'goclaw.service*' -not -path '/proc/*'").stdout == ""


def test_it_runs_as_its_user_with_its_name_and_its_sandbox(service: Service) -> None:
    status = service.goclaw("service status")
    assert "active (running)" in status and "When the machine starts: started" in status
    assert service.machine.run(f"stat -c %U /proc/{service.property('MainPID')}").stdout == f"{USER}\n"
    assert f"uid=1000({USER})" in service.answer('/tool exec {"command": "id"}')


def test_lines_in_the_journal_have_their_priority_and_the_unit(service: Service) -> None:
    service.machine.run(f"echo '{{' > {STATE}/users.json", USER)
    service.machine.until(f"grep -q users.json {STATE}/logs/goclaw.log", USER)
    service.answer()
    entries = service.journal()
    unit = "_SYSTEMD_UNIT" if service.manager is Manager.SYSTEM else "_SYSTEMD_USER_UNIT"
    ours = [entry for entry in entries if entry.get(unit) == "goclaw.service"]
    assert {entry["SYSLOG_IDENTIFIER"] for entry in ours} == {"goclaw"}
    assert any(entry["PRIORITY"] == "6" and "turn answered" in entry["MESSAGE"] for entry in ours)
    assert any(entry["PRIORITY"] in "34" and "users.json" in entry["MESSAGE"] for entry in ours)
    assert not any(entry["MESSAGE"].startswith("<") for entry in ours)
    shown = service.goclaw("service logs -n 100")
    assert "turn answered" in shown and "Started goclaw.service" in shown
    service.machine.run(f"rm {STATE}/users.json", USER)


def test_a_killed_daemon_is_started_again_and_answers(service: Service) -> None:
    restarts = int(service.property("NRestarts"))
    service.wait_for_another(service.send("KILL"))
    assert "You said: hi" in service.answer()
    assert int(service.property("NRestarts")) == restarts + 1


def test_a_stop_before_it_is_started_again_is_a_stop(service: Service) -> None:
    service.send("KILL")
    assert "systemd was about to restart it; stopped" in service.goclaw("stop")
    assert service.property("ActiveState") == "inactive"
    service.goclaw("start")
    assert "You said: hi" in service.answer()


def test_a_daemon_that_hangs_is_ended_by_the_watchdog_and_started_again(service: Service) -> None:
    folder = "/etc/systemd/system" if service.manager is Manager.SYSTEM else f"/home/{USER}/.config/systemd/user"
    drop_in = f"{folder}/goclaw.service.d"
    text = f"[Service]\\nWatchdogSec={WATCHDOG_SECONDS}\\n"
    service.machine.run(f"mkdir -p {drop_in} && printf '{text}' > {drop_in}/watchdog.conf", service.user)
    service.systemctl("daemon-reload")
    service.systemctl("restart goclaw")
    service.wait_for_another(service.send("STOP"))
    assert any("result 'watchdog'" in entry["MESSAGE"] for entry in service.journal())
    assert "You said: hi" in service.answer()
    service.machine.run(f"rm -r {drop_in}", service.user)
    service.systemctl("daemon-reload")


def test_a_stop_ends_it_within_the_grace_period_although_a_command_runs(service: Service) -> None:
    service.machine.run(f"""nohup {PROGRAM} send '/tool exec {{"command": "sleep 300"}}' > /dev/null 2>&1 &""", USER)
    service.machine.until("grep -l '^sleep' /proc/[0-9]*/comm", seconds=BACK_SECONDS)
    service.systemctl("stop goclaw", seconds=STOP_SECONDS)
    assert service.property("Result") == "success"
    assert service.machine.run("grep -l '^sleep' /proc/[0-9]*/comm", check=False).stdout == ""
    service.goclaw("start")


def test_an_unusable_configuration_is_an_error_in_the_journal_and_no_loop(service: Service) -> None:
    service.machine.run(f"echo 'workspase: x' > {STATE}/config.yaml", USER)
    service.machine.run(
        f"{service._prefix}{' '.join(service.manager.command)} restart goclaw", service.user, check=False
    )
    assert (service.property("ActiveState"), service.property("ExecMainStatus")) == ("failed", "78")
    assert any("workspase" in entry["MESSAGE"] for entry in service.journal("--priority=err"))
    service.machine.run(f"rm {STATE}/config.yaml", USER)
    service.goclaw("start")


def test_it_runs_again_after_the_machine_was_started_anew(service: Service) -> None:
    service.machine.engine.run("docker", "restart", "--time=30", service.machine.name)
    service.machine.until("systemctl is-system-running | grep -E 'running|degraded'")
    service.wait_for_another("0")
    assert "You said: hi" in service.answer()


def test_an_upgrade_goes_on_under_the_same_systemd(service: Service) -> None:
    version = "99.0.0" if service.manager is Manager.USER else "100.0.0"
    service.machine.run(f"test -d next || ( {REMOTE} )", USER)
    service.machine.run(RELEASE.format(version), USER)
    before = service.property("MainPID")
    # The owner of the checkout may not end the machine's unit.
    if service.manager is Manager.SYSTEM:
        service.systemctl("stop goclaw")
    service.machine.run(f"GOCLAW_STATE_DIR={STATE} {PROGRAM} upgrade", USER, SET_UP_SECONDS)
    if service.manager is Manager.SYSTEM:
        service.systemctl("start goclaw")
    assert service.machine.run("git -C goclaw describe --tags", USER).stdout == f"v{version}\n"
    assert service.property("MainPID") not in ("0", before)
    assert "You said: hi" in service.answer()
    assert service.machine.run(f"find {STATE} {CHECKOUT} -not -user {USER}").stdout == ""

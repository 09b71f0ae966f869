"""`goclaw service install|remove|status|logs`: the daemon as a systemd unit, which starts it and keeps it running."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from goclaw.common.config.load import Loaded
from goclaw.common.config.state import running_pid
from goclaw.common.core.container import daemon_command
from goclaw.common.core.files import replace_file
from goclaw.common.health.log_reading import LogLevel, line_filter
from goclaw.errors import StateError
from goclaw.program.cli import systemd
from goclaw.program.cli.base import print_message
from goclaw.program.cli.logs import show_log
from goclaw.program.cli.options import command_group, load, options
from goclaw.program.cli.process import variables
from goclaw.program.cli.systemd import MARK, UNIT_NAME, Manager

app = command_group("Let systemd start the daemon and keep it running.")

System = Annotated[bool, typer.Option("--system", help="The unit of the machine, for root; default: your own unit.")]
OWNER_SECONDS = 60.0
"""Time for Python to start as another user."""


@app.command()
def install(context: typer.Context, system: System = False) -> None:
    """Write a systemd unit for this configuration, and start it; systemd starts it from then on.

    The unit holds no secret: what the daemon needs must be in its files. With --system the machine's systemd runs the
    daemon, as the user who owns the state folder.
    """
    loaded = load(context)
    if options(context).overrides:
        raise typer.BadParameter(
            "a service does not keep these; put the keys in the configuration file", param_hint="--set"
        )
    if not systemd.exists():
        raise StateError(
            f"there is no systemd on this machine; {daemon_command('start')} runs the daemon in the background"
        )
    manager = Manager.SYSTEM if system else Manager.USER
    if manager is Manager.SYSTEM:
        _refuse_unsuited_owner(loaded)
    _refuse_other_daemon(loaded, manager)
    path, text = manager.unit_path, manager.unit_text(loaded)
    _refuse_foreign(manager)
    works = manager.answers()
    _warn_of_variables(loaded, manager.variables() if works else frozenset())
    before = manager.installed_unit()
    _write(path, text)
    print_message(f"{path}: {'unchanged' if before == text else 'written'}")
    if works:
        _start(manager, changed=before not in (None, text))
        moment = "the machine starts" if manager is Manager.SYSTEM or systemd.lingers() else "you log in"
        print_message(f"systemd runs the daemon (pid {manager.main_pid()}) and starts it when {moment}")
    else:
        for line in _lines_without_systemd(manager):
            print_message(line)
    if works and manager is Manager.USER and not systemd.lingers():
        print_message(f"it stops when you log out; {_linger_hint()} keeps it running")


@app.command()
def remove(system: System = False) -> None:
    """End the service and take its unit away; conversations and configuration stay."""
    remove_unit(_manager(system=system))


def remove_unit(manager: Manager, *, ends_daemon: bool = False) -> None:
    """End the daemon that this systemd runs for us, and remove our unit. `ends_daemon`: the caller ends any other.

    Raises:
        StateError: the unit is not ours, or cannot be removed.
    """
    path = manager.unit_path
    _refuse_foreign(manager)
    if not path.exists():
        print_message(f"not installed ({path})")
        return
    works = manager.answers()
    if works:
        manager.control("disable", "--now", UNIT_NAME)
    try:
        path.unlink()
    except OSError as error:
        raise StateError(f"{path}: cannot be removed: {error.strerror}") from error
    if works:
        manager.control("daemon-reload")
        # Otherwise a daemon that ended badly is listed as failed forever.
        manager.forget()
    else:
        # The link made by `systemctl enable`, which systemctl cannot remove now.
        link = path.parent / f"{manager.target}.wants" / UNIT_NAME
        if link.is_symlink() and link.readlink() in (path, Path("..") / UNIT_NAME):
            link.unlink()
        if not ends_daemon:
            how = daemon_command("stop")
            print_message(f"systemd cannot be reached from here; a running daemon continues until {how}")
    print_message(f"{path}: removed. Conversations and configuration are unchanged")


@app.command()
def status(system: System = False) -> None:
    """Say whether the service is installed and how it is. Exit code 1 when it does not run."""
    manager = _manager(system=system)
    path = manager.unit_path
    if manager.installed_unit() is None:
        print_message(
            f"{path}: {'not written by GoClaw' if path.exists() else 'not installed'}; see `goclaw service install`"
        )
        raise typer.Exit(1)
    print(f"Unit: {path}")
    if not manager.answers():
        print_message("systemd cannot be reached from here")
        raise typer.Exit(1)
    found = manager.properties(
        "ActiveState", "SubState", "UnitFileState", "MainPID", "StatusText", "NRestarts", "Result"
    )
    print(f"State: {found['ActiveState']} ({found['SubState']}), pid {found['MainPID']}, result {found['Result']}")
    if found["ActiveState"] == "active":
        print(f"Says: {found['StatusText'] or 'nothing'}")
    print(f"Restarted after a failure: {found['NRestarts'] or 0} times")
    starts = "started" if found["UnitFileState"] == "enabled" else "not started"
    if manager is Manager.SYSTEM or systemd.lingers():
        print(f"When the machine starts: {starts}")
    else:
        print(f"When you log in: {starts}")
        print(f"When you log out: stops ({_linger_hint()} changes that)")
    if found["ActiveState"] != "active":
        raise typer.Exit(1)


@app.command()
def logs(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Follow the log as lines arrive.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="Number of lines, counted from the end.")] = 50,
    system: System = False,
) -> None:
    """Show the service's lines in the systemd journal, with what systemd did; without a journal, the daemon's log."""
    command = _manager(system=system).journal
    if not _has_entries(command):
        show_log(load(context, packages=False).config, line_filter("", "", LogLevel.DEBUG), lines, follow=follow)
        return
    following = ("--follow",) if follow else ("--no-pager",)
    try:
        done = subprocess.run([*command, "--quiet", f"--lines={lines}", *following], check=False)
    except KeyboardInterrupt:
        return
    raise typer.Exit(done.returncode)


def _has_entries(command: tuple[str, ...]) -> bool:
    """Whether this user can read entries of our unit in the journal."""
    if shutil.which(command[0]) is None:
        return False
    found = subprocess.run([*command, "--quiet", "--lines=1", "--output=cat"], capture_output=True, check=False)
    return found.returncode == 0 and bool(found.stdout)


def _manager(*, system: bool) -> Manager:
    """Return the systemd that is meant: the user's unless only the machine's has a unit of ours."""
    return Manager.SYSTEM if system or systemd.list_managers() == [Manager.SYSTEM] else Manager.USER


def _linger_hint() -> str:
    user = systemd.user_name(os.geteuid())
    return f"`loginctl enable-linger` (or, as root, `loginctl enable-linger {user}`)"


def _lines_without_systemd(manager: Manager) -> list[str]:
    """Return lines about the commands for a person to run where systemd cannot be reached."""
    control = " ".join(manager.command)
    commands = f"    {control} daemon-reload && {control} enable --now {UNIT_NAME}"
    if manager is Manager.SYSTEM:
        return ["systemd cannot be reached from here. Run this where it can be reached:", commands]
    return [
        "this user's systemd cannot be reached from here. When you are logged in, run:",
        commands,
        f"to keep it running while you are logged out: {_linger_hint()}",
    ]


def _refuse_unsuited_owner(loaded: Loaded) -> None:
    """Refuse a system unit that only root could write, or that names a user who cannot run this installation.

    Raises:
        StateError: the message says which it is.
    """
    if os.geteuid() != 0:
        raise StateError("only root can install a unit of the machine: run the same command with sudo")
    state_dir = loaded.config.state_dir
    if not state_dir.is_dir():
        return  # root's own, made at the first start
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", "import goclaw"],
            user=state_dir.stat().st_uid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            timeout=OWNER_SECONDS,
            check=False,
        )
        runs = done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        runs = False
    if not runs:
        raise StateError(
            f"{systemd.owner_name(state_dir)}, who owns {state_dir}, cannot run {sys.executable}: install GoClaw where "
            "that user can reach it, or give the folder to the user who should run the daemon"
        )


def _refuse_other_daemon(loaded: Loaded, manager: Manager) -> None:
    pid = running_pid(loaded.config)
    if pid and pid != manager.main_pid():
        raise StateError(
            f"a daemon (pid {pid}) already uses {loaded.config.state_dir}: stop it with {daemon_command('stop')}, then "
            "install"
        )


def _refuse_foreign(manager: Manager) -> None:
    path = manager.unit_path
    # A link may lead anywhere; systemd masks units by links to /dev/null.
    if path.is_symlink() or (path.exists() and manager.installed_unit() is None):
        raise StateError(
            f"{path}: not written by GoClaw (it does not begin with `{MARK}`); move it away to use this command"
        )


def _warn_of_variables(loaded: Loaded, known: frozenset[str]) -> None:
    """Name variables that the daemon would get from this shell but not from systemd."""
    unseen = [name for name in variables(loaded, os.environ) if name not in known]
    if unseen:
        print_message(f"warning: set in this shell, but invisible to the service: {', '.join(unseen)}")
        print_message(
            f"warning: put secrets in files in {loaded.config.state_dir / 'secrets'} (`goclaw setup` writes them),"
        )
        print_message(f"warning: and settings in {loaded.path or loaded.config.state_dir / 'config.yaml'}")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text, mode=0o666, fsync=False)
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror}") from error


def _start(manager: Manager, *, changed: bool) -> None:
    """Let systemd read the unit, and start it; one that ran in its old form is restarted."""
    manager.control("daemon-reload")
    runs = manager.main_pid() is not None
    try:
        manager.control("enable", "--now", UNIT_NAME)
        if changed and runs:
            manager.control("restart", UNIT_NAME)
    except StateError as error:
        raise StateError(
            f"{error}\nthe unit is installed and systemd keeps trying; `goclaw service logs` says why it fails, "
            "`goclaw service remove` removes it"
        ) from error

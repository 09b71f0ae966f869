"""`goclaw service install|remove|status`: the daemon as a systemd user unit, which starts it and keeps it running."""

import os
from pathlib import Path

import typer

from goclaw.cli import systemd
from goclaw.cli.base import say
from goclaw.cli.options import load, options
from goclaw.cli.process import variables
from goclaw.cli.systemd import MARK, UNIT_NAME, installed_unit, unit_path, unit_text
from goclaw.config.load import Loaded
from goclaw.config.state import running_pid
from goclaw.core.files import replace_file
from goclaw.errors import StateError

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Let systemd start the daemon and keep it running.",
)


@app.command()
def install(context: typer.Context) -> None:
    """Write a systemd user unit for this configuration, and start it; systemd starts it from then on.

    The unit holds no secret: what the daemon needs must be in its files.
    """
    loaded = load(context)
    if options(context).overrides:
        raise typer.BadParameter(
            "is not kept by a service; put the keys into the configuration file", param_hint="--set"
        )
    if not systemd.exists():
        raise StateError("there is no systemd on this machine; `goclaw start` runs the daemon in the background")
    _refuse_other_daemon(loaded)
    path, text = unit_path(), unit_text(loaded)
    _refuse_foreign(path)
    works = systemd.answers()
    _warn_of_variables(loaded, systemd.variables() if works else frozenset())
    before = installed_unit()
    _write(path, text)
    say(f"{path}: {'as it was' if before == text else 'written'}")
    if not works:
        say("this user's systemd cannot be reached from here. When you are logged in, run:")
        say(f"    systemctl --user daemon-reload && systemctl --user enable --now {UNIT_NAME}")
        say("    loginctl enable-linger    # if it is to run while you are not logged in, too")
        return
    _start(changed=before not in (None, text))
    say(f"systemd runs the daemon (pid {systemd.main_pid()}), and starts it when you log in")
    if not systemd.lingers():
        say("it ends when you log out; `loginctl enable-linger` lets it run without you")


@app.command()
def remove() -> None:
    """End the service and take its unit away; conversations and configuration stay."""
    path = unit_path()
    _refuse_foreign(path)
    if not path.exists():
        say(f"not installed ({path})")
        return
    works = systemd.answers()
    if works:
        systemd.control("disable", "--now", UNIT_NAME)
    path.unlink()
    if works:
        systemd.control("daemon-reload")
        # Otherwise a daemon that ended badly is listed as failed forever.
        systemd.forget()
    else:
        _remove_enable_link(path)
        say("this user's systemd cannot be reached from here; what it runs now goes on until `goclaw stop`")
    say(f"{path}: removed. Conversations and configuration are as they were")


@app.command()
def status() -> None:
    """Say whether the service is installed and how it is. Exit code 1 when it does not run."""
    path = unit_path()
    if installed_unit() is None:
        say(f"{path}: {'is not ours' if path.exists() else 'not installed'}; see `goclaw service install`")
        raise typer.Exit(1)
    print(f"Unit: {path}")
    if not systemd.answers():
        say("this user's systemd cannot be reached from here")
        raise typer.Exit(1)
    told = systemd.properties(
        "ActiveState", "SubState", "UnitFileState", "MainPID", "StatusText", "NRestarts", "Result"
    )
    print(f"State: {told['ActiveState']} ({told['SubState']}), pid {told['MainPID']}, result {told['Result']}")
    if told["ActiveState"] == "active":
        print(f"Says: {told['StatusText'] or 'nothing'}")
    print(f"Started anew after a failure: {told['NRestarts'] or 0} times")
    print(f"When you log in: {'started' if told['UnitFileState'] == 'enabled' else 'not started'}")
    print(f"When you log out: {'goes on' if systemd.lingers() else 'ends (`loginctl enable-linger`)'}")
    if told["ActiveState"] != "active":
        raise typer.Exit(1)


def _refuse_other_daemon(loaded: Loaded) -> None:
    pid = running_pid(loaded.config)
    if pid and pid != systemd.main_pid():
        raise StateError(
            f"a daemon (pid {pid}) uses {loaded.config.state_dir} already: end it with `goclaw stop`, then install"
        )


def _refuse_foreign(path: Path) -> None:
    # A link may lead anywhere; systemd masks units by links to /dev/null.
    if path.is_symlink() or (path.exists() and installed_unit() is None):
        raise StateError(f"{path}: does not begin with `{MARK}`, so it is not ours; move it away to use this command")


def _warn_of_variables(loaded: Loaded, known: frozenset[str]) -> None:
    """Name variables that the daemon would get from this shell but not from systemd."""
    unseen = [name for name in variables(loaded, os.environ) if name not in known]
    if unseen:
        say(f"warning: set in this shell, and not seen by the service: {', '.join(unseen)}")
        say(
            f"warning: secrets belong into files of {loaded.config.state_dir / 'secrets'} (`goclaw setup` writes them),"
        )
        say(f"warning: settings into {loaded.path or loaded.config.state_dir / 'config.yaml'}")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text, mode=0o666, fsync=False)
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror}") from error


def _start(*, changed: bool) -> None:
    """Let systemd read the unit, and start it; one that ran as it was before is started anew."""
    systemd.control("daemon-reload")
    runs = systemd.main_pid() is not None
    try:
        systemd.control("enable", "--now", UNIT_NAME)
        if changed and runs:
            systemd.control("restart", UNIT_NAME)
    except StateError as error:
        raise StateError(
            f"{error}\nthe unit is installed and systemd goes on trying; `goclaw logs` and "
            f"`journalctl --user -u {UNIT_NAME}` say why it fails, `goclaw service remove` takes it away"
        ) from error


def _remove_enable_link(path: Path) -> None:
    """Remove the link made by `systemctl enable`, where systemctl cannot."""
    link = path.parent / "default.target.wants" / UNIT_NAME
    if link.is_symlink() and link.readlink() in (path, Path("..") / UNIT_NAME):
        link.unlink()

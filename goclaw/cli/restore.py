"""`goclaw restore`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from goclaw.backup.restore import Restored, RestoreSelection, restore
from goclaw.backup.settle import moment
from goclaw.cli.common import load, options
from goclaw.cli.frame import say, show
from goclaw.clock import RealClock
from goclaw.config.load import CONTAINER_SECRETS, load_config
from goclaw.config.schema import Config

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("restore")
def restore_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="What `goclaw backup` made.")],
    state_dir: Annotated[Path | None, typer.Option(help="Into this folder, as GOCLAW_STATE_DIR does it.")] = None,
    workspace: Annotated[bool, typer.Option(help="Whether the agent's files are restored, too.")] = True,
    keep_settings: Annotated[
        bool, typer.Option("--keep-settings", help="Leave configuration, users.json and secrets as they are.")
    ] = False,
    outside: Annotated[
        bool, typer.Option("--outside", help="Also write to places outside the state folder that only FILE names.")
    ] = False,
) -> None:
    """Get everything back from a backup.

    No daemon may run. What is there now moves aside and is kept; all of the backup takes its place, or nothing.
    """
    if state_dir is not None:
        os.environ["GOCLAW_STATE_DIR"] = str(state_dir.expanduser().absolute())
    loaded, given = load(context), options(context)

    def reload(config: Path, secrets: Path) -> Config:
        folder = secrets if secrets.is_dir() else CONTAINER_SECRETS
        return load_config(config, overrides=given.overrides, container_secrets=folder).config

    wanted = RestoreSelection(settings=not keep_settings, workspace=workspace, outside=outside)
    done = restore(loaded, file.expanduser().absolute(), RealClock(), reload, wanted)
    for note in done.notes:
        say(f"note: {note}")
    show("\n".join([*_words(done), f"Start it with `{_start(state_dir)}`."]))


def _words(done: Restored) -> list[str]:
    made = moment(done.manifest.made_at)
    lines = [f"restored the backup of {made}: {', '.join(done.parts)}"]
    left = {
        "messages without an answer then": done.settled.turns,
        "deliveries under way then": done.settled.deliveries,
        "messages without an answer now": done.waiting or 0,
    }
    if counted := ", ".join(f"{what}: {count:,}" for what, count in left.items() if count):
        lines.append(f"  not taken up, so that nothing is answered or sent twice: {counted}")
    if done.waiting is None:
        lines.append("  what was replaced cannot be read: Telegram may send messages of the last minutes once more")
    if done.kept:
        lines.append(f"  what was there before is kept: *{done.mark} in {', '.join(map(str, done.kept))}")
    return lines


def _start(state_dir: Path | None) -> str:
    return f"GOCLAW_STATE_DIR={state_dir} goclaw" if state_dir else "goclaw"

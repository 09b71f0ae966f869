"""`goclaw backup|restore`: everything in one new file while the daemon runs, and back again."""

import os
import signal
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from goclaw.common.config.load import load_config
from goclaw.common.config.schema import Config
from goclaw.common.config.values import CONTAINER_SECRETS
from goclaw.common.core.clock import RealClock
from goclaw.common.health.resources import amount
from goclaw.program.cli.base import print_message, show
from goclaw.program.cli.options import load, options
from goclaw.program.ops.backup import archive
from goclaw.program.ops.backup.collect import back_up
from goclaw.program.ops.backup.restore import Restored, RestoreSelection, restore
from goclaw.program.ops.backup.settle import moment
from goclaw.program.ops.backup.trust import KINDS

MOST_SHOWN = 20
"""Lines of one kind that are shown of a backup."""


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The archive to create, such as goclaw-2026-11-21.tar.gz.")],
    workspace: Annotated[bool, typer.Option(help="Include the agent's files and its memory.")] = True,
    secrets: Annotated[bool, typer.Option("--secrets", help="Include tokens and keys; keep such a file safe.")] = False,
) -> None:
    """Save everything in one new file, even while the daemon runs.

    Conversations, their pictures, settings and the agent's files; secrets only when asked for. The file is read back
    before it gets its name, and never takes the place of another.
    """
    # The daemon goes first: its people wait, a backup does not.
    os.nice(10)
    # Cancelling this also removes the unfinished files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    made = back_up(load(context), file.expanduser().absolute(), RealClock(), workspace=workspace, secrets=secrets)
    for note in made.notes:
        print_message(f"warning: not in the backup: {note}")
    without = ", ".join(made.manifest.config_without)
    left_out = [
        *([] if workspace else ["the workspace"]),
        *([] if secrets else [f"secrets (also {without})" if without else "secrets"]),
        "logs",
        "the memory index (rebuilt)",
    ]
    show("\n".join([f"{file}: {amount(made.size)}, verified", *_parts(made.manifest)]))
    show(f"  not included: {', '.join(left_out)}")


def _parts(manifest: archive.Manifest) -> Iterator[str]:
    pictures = manifest.within(archive.MEDIA)
    yield f"  conversations: {amount(manifest.members[archive.DATABASE].size)}"
    if notes := manifest.within(archive.NOTES):
        yield f"  private notes: {len(notes):,}, {_size(notes)}"
    yield f"  pictures: {len(pictures) // 2:,}, {_size(pictures)}"
    if registries := manifest.members.get(archive.REGISTRIES):
        yield f"  registries: {amount(registries.size)}"
    settings = [name for name in (archive.CONFIG, archive.USERS) if name in manifest.members]
    yield f"  settings: {', '.join(settings) or 'none'}"
    if files := [*manifest.within(archive.WORKSPACE), *manifest.within(archive.WORKSPACES)]:
        yield f"  workspace: {len(files):,} {'file' if len(files) == 1 else 'files'}, {_size(files)}"
    if secrets := manifest.within(archive.SECRETS):
        yield f"  secrets: {len(secrets)}"


def _size(members: list[archive.ArchiveMember]) -> str:
    return amount(sum(member.size for member in members))


def restore_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="An archive made by `goclaw backup`.")],
    state_dir: Annotated[
        Path | None, typer.Option(help="The state folder to restore into, like GOCLAW_STATE_DIR.")
    ] = None,
    workspace: Annotated[bool, typer.Option(help="Also restore the agent's files.")] = True,
    keep_settings: Annotated[
        bool, typer.Option("--keep-settings", help="Keep the current configuration, users.json and secrets.")
    ] = False,
    outside: Annotated[
        bool, typer.Option("--outside", help="Also write to places outside the state folder that only FILE names.")
    ] = False,
    trust: Annotated[
        str, typer.Option(help=f"What FILE may bring though another installation made it: all, or {','.join(KINDS)}.")
    ] = "",
) -> None:
    """Restore everything from a backup.

    No daemon may run. What is there now moves aside and is kept; all of the backup takes its place, or nothing. Of a
    backup that was made elsewhere, what could run, reach out or give rights is shown, and stays off without a yes.
    """
    trusted = _parse_kinds(trust)
    if state_dir is not None:
        os.environ["GOCLAW_STATE_DIR"] = str(state_dir.expanduser().absolute())
    loaded, given = load(context), options(context)

    def reload(config: Path, secrets: Path) -> Config:
        folder = secrets if secrets.is_dir() else CONTAINER_SECRETS
        return load_config(config, overrides=given.overrides, container_secrets=folder, packaged=loaded.packaged).config

    wanted = RestoreSelection(
        settings=not keep_settings,
        workspace=workspace,
        outside=outside,
        trust=(lambda _: trusted) if trusted else _ask,
    )
    done = restore(loaded, file.expanduser().absolute(), RealClock(), reload, wanted)
    for note in (*done.notes, *_list_left_off(done, file)):
        print_message(f"note: {note}")
    start = f"GOCLAW_STATE_DIR={state_dir} goclaw" if state_dir else "goclaw"
    show("\n".join([*_restored_lines(done), f"Start it with `{start}`."]))


def _parse_kinds(words: str) -> Collection[str]:
    """Return the kinds of `--trust`. Raises BadParameter."""
    given = {word.strip() for word in words.split(",") if word.strip()}
    if odd := sorted(given - {"all", *KINDS}):
        raise typer.BadParameter(f"{odd[0]!r} is none of these: all, {', '.join(KINDS)}", param_hint="--trust")
    return KINDS if "all" in given else given


def _ask(risks: Mapping[str, Sequence[str]]) -> Collection[str]:
    """Show what a foreign archive brings and ask for each kind; without a terminal nothing is trusted."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return ()
    show("This backup was not made by this installation; it may come from anybody. It brings:")
    show("\n".join(f"  {kind if not number else '':<10}{line}" for kind, number, line in _tabulate(risks)))
    return [kind for kind in risks if typer.confirm(f"Restore the {kind}, too?")]


def _tabulate(risks: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, int, str]]:
    for kind, lines in risks.items():
        more = [f"… and {len(lines) - MOST_SHOWN:,} more"] if len(lines) > MOST_SHOWN else []
        yield from ((kind, number, line) for number, line in enumerate([*lines[:MOST_SHOWN], *more]))


def _list_left_off(done: Restored, file: Path) -> Iterator[str]:
    for kind, lines in done.left_off.items():
        yield f"{kind} stay off: {'; '.join(line for _, _, line in _tabulate({kind: lines}))}"
    if done.left_off:
        words = ",".join(done.left_off)
        yield f"to turn them on, if you trust the backup, run `goclaw restore {file} --trust {words}` before the start"
    if done.left_off_in:
        yield f"what stays off is kept in {done.left_off_in}"


def _restored_lines(done: Restored) -> list[str]:
    made = moment(done.manifest.made_at)
    lines = [f"restored the backup of {made}: {', '.join(done.parts)}"]
    left = {
        "messages without an answer in the backup": done.settled.turns,
        "unfinished deliveries in the backup": done.settled.deliveries,
        "messages without an answer in the replaced data": done.waiting or 0,
    }
    if counted := ", ".join(f"{what}: {count:,}" for what, count in left.items() if count):
        lines.append(f"  skipped, so that nothing is answered or sent twice: {counted}")
    if done.waiting is None:
        lines.append("  the replaced data cannot be read: Telegram may resend messages of the last minutes")
    if done.kept:
        lines.append(f"  the previous data are kept: *{done.mark} in {', '.join(map(str, done.kept))}")
    return lines

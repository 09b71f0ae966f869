"""`goclaw sessions list|show|export`: conversations, to standard output or into a new file."""

import asyncio
import os
import sys
from codecs import StreamWriter, getwriter
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, TextIO

import orjson
import typer

from goclaw.common.auth.users import Users
from goclaw.common.config.schema import Config
from goclaw.common.core.events import SessionInfo
from goclaw.common.core.files import create_file
from goclaw.common.core.redact import mask
from goclaw.durable.store.blobs import has_media
from goclaw.errors import StateError
from goclaw.program.cli.base import show as show_text
from goclaw.program.cli.options import command_group, load
from goclaw.program.cli.transcript_formats import JsonLinesWriter, MarkdownWriter, PlainWriter, mask_json, when
from goclaw.program.cli.transcripts import Kept, entries, find_outline, open_source

STDOUT = "-"


@contextmanager
def open_target(name: str) -> Iterator[TextIO | StreamWriter]:
    """Open the new file `name` (mode 0600: it holds a conversation), or standard output for `-`.

    Raises:
        StateError: it exists, or cannot be written. Nothing half-written is left.
    """
    if name == STDOUT:
        yield sys.stdout
        return
    path = Path(name).expanduser()
    if path.exists() or path.is_symlink():
        raise _exists(path)
    try:
        with create_file(path) as file:
            yield getwriter("utf-8")(file)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror or error}") from error


def _exists(path: Path) -> StateError:
    return StateError(f"{path}: already exists; name another file, because nothing is overwritten")


app = command_group("List, show and export conversations.")

Key = Annotated[str, typer.Argument(help="The conversation, as in `goclaw sessions list`.")]


class Format(StrEnum):
    """Format of an export."""

    MARKDOWN = "markdown"
    JSONL = "jsonl"


Form = PlainWriter | MarkdownWriter | JsonLinesWriter
"""A writer of transcripts: the text before the first entry, and that of each entry, with its line ends."""


@app.command("list")
def list_(context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print the conversations, the latest first."""
    found = asyncio.run(_sessions(load(context).config))
    with _enough_is_enough():
        if as_json:
            show_text(orjson.dumps(mask_json(orjson.loads(orjson.dumps(found))), option=orjson.OPT_INDENT_2).decode())
            return
        width = max((len(info.key) for info in found), default=0)
        for info in found:
            title = " ".join(mask(info.title).split())
            show_text(f"{info.key:{width}}  {info.messages:>7,} rows  last {when(info.last_at)}  {title}".rstrip())


@app.command()
def show(
    context: typer.Context,
    key: Key,
    full: Annotated[
        bool, typer.Option("--full", help="Everything ever said, even before /clear and compactions.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="Number of messages, counted from the end; 0: all.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="As lines of JSON, as `export` writes them.")] = False,
) -> None:
    """Print a conversation: as the model is shown it, or all of it."""
    config = load(context).config
    form = JsonLinesWriter() if as_json else PlainWriter(_media_check(config))
    with _enough_is_enough():
        asyncio.run(_write(config, key, form, _show_piece, full=full, last=limit))


@app.command()
def export(
    context: typer.Context,
    key: Key,
    file: Annotated[str, typer.Argument(help="A new file; `-` is standard output.")] = STDOUT,
    format_: Annotated[
        Format, typer.Option("--format", help="The format: for people or for machines.")
    ] = Format.MARKDOWN,
) -> None:
    """Write all of a conversation into a new file; secrets are masked."""
    config = load(context).config
    form: Form = JsonLinesWriter()
    if format_ is Format.MARKDOWN:
        names = {user.key: user.name for user in Users.read(config.users_path).all()}
        form = MarkdownWriter(names, _media_check(config))
    with _enough_is_enough(), open_target(file) as target:
        asyncio.run(_write(config, key, form, target.write, full=True))


def _media_check(config: Config) -> Kept:
    return partial(has_media, config.state_dir / "blobs")


@contextmanager
def _enough_is_enough() -> Iterator[None]:
    """End quietly when the reader closes the pipe (`| head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python must not try to write the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None


def _show_piece(text: str) -> None:
    if text:
        show_text(text.removesuffix("\n"))


async def _sessions(config: Config) -> list[SessionInfo]:
    async with open_source(config) as source:
        return list(await source.sessions())


async def _write(
    config: Config, key: str, form: Form, write: Callable[[str], object], *, full: bool, last: int = 0
) -> None:
    async with open_source(config, key) as source:
        outline = await find_outline(source, key, last)
        write(form.head(outline))
        async with aclosing(entries(source, outline, full=full)) as written:
            async for entry in written:
                write(form.entry(entry))

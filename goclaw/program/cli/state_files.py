"""Files of the state folder, changed by hand: users.json, private notes, approved prompt files and the like.

With Postgres they are documents of the database, and an edit of a file in the folder does not count. These commands
change what counts, on SQLite, too.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from goclaw.clients.tui.terminal_integration import EditorError, editor_of
from goclaw.common.auth.tokens import check_tokens
from goclaw.common.auth.users import MAX_FILE_BYTES, check_users
from goclaw.common.config.schema import Config
from goclaw.common.config.state import state_path_of
from goclaw.common.core.files import read_bytes, replace_file, shown_path
from goclaw.durable.store.file_writer import file_writer
from goclaw.errors import ConfigError, StateError
from goclaw.program.cli.base import print_message

ToFile = Annotated[Path | None, typer.Argument(help="The file to write; not given: it is printed.")]
FromFile = Annotated[Path, typer.Argument(help="The file to read.")]
_ANY = b"\0"
"""Stands for any content."""


def state_file(config: Config, name: str) -> Path:
    """Return where a file of the state folder lies.

    Raises:
        ConfigError: these commands do not change it.
    """
    found, path = state_path_of(name), PurePosixPath(name)
    if found is None or not found.in_store or ".." in path.parts or str(path) != name:
        raise ConfigError(
            f"{name}: should be users.json, access-tokens.json, mcp-tools.json, or a file in notes/ or prompt-files/"
        )
    return config.state_dir / name


def bring_up_to_date(config: Config, *paths: Path) -> None:
    """Get the present files from the database, where it has them; without it, warn that they may be old."""
    if isinstance(config.store_place, Path):
        return
    try:
        for path in paths:
            with file_writer(config)(path):
                pass
    except (StateError, OSError) as error:
        print_message(f"warning: this machine's copy may be old: {error}")


def export_file(config: Config, path: Path, to: Path | None) -> None:
    """Print a file, or write it to `to`.

    Raises:
        ConfigError: the file is missing, or `to` cannot be written.
    """
    content = _read(config, path)
    if content is None:
        raise ConfigError(f"{shown_path(path)}: no such file")
    if to is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    try:
        replace_file(to, content)
    except OSError as error:
        raise ConfigError(f"{shown_path(to)}: cannot be written: {error.strerror}") from None


def import_file(config: Config, path: Path, source: Path) -> None:
    """Replace or make a file.

    Raises:
        ConfigError: `source` cannot be read or used, or the file cannot be written.
    """
    _write(config, path, read_bytes(source, shown_path(source), MAX_FILE_BYTES))


def remove_file(config: Config, path: Path) -> None:
    """Delete a file.

    Raises:
        ConfigError: the file is missing.
    """
    bring_up_to_date(config, path)
    if not path.exists():
        raise ConfigError(f"{shown_path(path)}: no such file")
    with _changing(config, path):
        path.unlink(missing_ok=True)
    print(f"{shown_path(path)}: removed")


def edit_file(config: Config, path: Path) -> None:
    """Open a file in the editor, and write what was saved.

    Raises:
        ConfigError: there is no editor, the text cannot be used, or the file was changed meanwhile; the text is kept.
    """
    try:
        editor = editor_of()
    except EditorError as error:
        raise ConfigError(str(error)) from None
    before = _read(config, path)
    draft = Path(tempfile.mkdtemp(prefix="goclaw-"), path.name)
    draft.write_bytes(before or b"")
    code = subprocess.run([*editor, str(draft)], check=False).returncode
    content = draft.read_bytes() if draft.exists() else None
    if code or content is None or content == (before or b""):
        print_message("nothing was changed")
    else:
        try:
            _write(config, path, content, expected=before)
        except (ConfigError, StateError) as error:
            raise ConfigError(f"{error}\nYour text is kept in {draft}") from error
    shutil.rmtree(draft.parent, ignore_errors=True)  # many editors leave a backup beside the file


def _read(config: Config, path: Path) -> bytes | None:
    bring_up_to_date(config, path)
    return read_bytes(path, shown_path(path), MAX_FILE_BYTES) if path.exists() else None


def _write(config: Config, path: Path, content: bytes, expected: bytes | None = _ANY) -> None:
    """Replace a file that has the expected content; None: that does not exist."""
    if path == config.users_path:
        check_users(content, path)
    elif path == config.tokens_path:
        check_tokens(content, path)
    elif path.suffix == ".json":
        try:
            json.loads(content)
        except ValueError as error:
            raise ConfigError(f"{shown_path(path)}: should be JSON: {error}") from None
    with _changing(config, path):
        if expected != _ANY and (path.read_bytes() if path.exists() else None) != expected:
            raise ConfigError(f"{shown_path(path)} was changed meanwhile; nothing was written")
        replace_file(path, content)
    print(f"{shown_path(path)}: written")


@contextmanager
def _changing(config: Config, path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file_writer(config)(path):
            yield
    except OSError as error:
        raise ConfigError(f"{shown_path(path)}: cannot be written: {error.strerror}") from None

"""The copy of the state on which a new version is tried out, and the call of that version's own trial.

The trial is `python -m goclaw.cli.upgrade_trial FOLDER` of the new version: it brings the copy up to date, starts
everything but channels on it, asks it for its status, ends it, and prints one line of JSON with `version` and
`schema`. Exit code 0: it can take over. That much stays the same in every version.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import orjson

from goclaw.common.config.schema import Config
from goclaw.durable.store.sqlite.backup import copy_database
from goclaw.errors import StateError
from goclaw.program.ops.backup.archive import DATABASE, REGISTRIES, registry_file
from goclaw.program.ops.backup.swap import remove
from goclaw.program.ops.upgrade.installation import command

FOLDER = "trial"
"""In the state folder; short, because a socket lies in it."""
MODULE = "goclaw.cli.upgrade_trial"


def copy_state(config: Config) -> Path:
    """Copy the files that a start reads and changes, while a daemon goes on; returns the folder of the copy.

    Raises:
        StateError: the database is damaged, or of a newer version.
        OSError: the disk is full.
    """
    folder = config.state_dir / FOLDER
    remove(folder)
    folder.mkdir(mode=0o700)
    if config.database_path.exists():
        copy_database(config.database_path, folder / DATABASE)
    registry_file().copy(config.state_dir / REGISTRIES, folder / REGISTRIES)
    for path in (config.state_dir / "users.json", config.state_dir / "access-tokens.json"):
        if path.exists():
            shutil.copy2(path, folder / path.name)
    secrets = config.state_dir / "secrets"
    if secrets.is_dir():
        # Not a second copy of every key.
        (folder / "secrets").symlink_to(secrets, target_is_directory=True)
    return folder


def run_trial(environment: Path, options: Sequence[str], folder: Path) -> str:
    """Let the new version start on the copy; returns the version that it says it is.

    Raises:
        StateError: it did not work; the message has its last words.
    """
    python = environment / "bin" / "python"
    said = command([python, "-P", "-m", MODULE, *options, folder], folder=folder, is_ours=True)
    try:
        return str(orjson.loads(said.strip().splitlines()[-1])["version"])
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError) as error:
        raise StateError(f"the new version did not report its version: {said.strip()[-200:] or 'nothing'}") from error

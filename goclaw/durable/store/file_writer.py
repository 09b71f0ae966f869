"""How files of the state folder are changed: with Postgres they are documents of the database."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from goclaw.common.config.schema import Config
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core import catalog
from goclaw.common.core.files import Writer, lock_folder
from goclaw.common.core.plugins import load
from goclaw.common.core.records import record
from goclaw.errors import ConfigError

PartT = TypeVar("PartT")


@record
class WriterPart:
    """A store that has documents, as named in the catalogue."""

    writer: Callable[[PostgresPlace, Path], Writer]
    """Returns what changes its documents, and their copies in a state folder."""


def file_writer(config: Config) -> Writer:
    """Return what changes users.json, access tokens, notes and the like.

    Raises:
        ConfigError: they are on Postgres, and the driver is not installed.
    """
    if isinstance(place := config.store_place, Path):
        return lock_folder
    return load_store(catalog.DOCUMENTS["postgres"], WriterPart).writer(place, config.state_dir)


def load_store(path: str, kind: type[PartT]) -> PartT:
    """Return a part of the store on Postgres.

    Raises:
        ConfigError: its driver is not installed.
    """
    try:
        return load(path, kind)
    except ConfigError as error:
        if isinstance(error.__cause__, ModuleNotFoundError):
            raise ConfigError(f"store: {error.__cause__}; install GoClaw with its extra `postgres`") from error
        raise

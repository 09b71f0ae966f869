"""The Postgres of the tests, on machines that close folders."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests import postgres

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="a plain user runs Postgres under their own name")


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes folders that only root can enter, and stands in the first."""
    tmp_path.chmod(0o700)
    monkeypatch.chdir(tmp_path)

    def make(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    return make


@only_root
def test_root_runs_it_from_a_checkout_and_with_a_temporary_folder_that_others_cannot_enter(
    private: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, packages = postgres.programs(postgres.NEWEST), private("packages")
    wheel = programs.parents[1]
    for folder in (wheel, wheel.with_name(f"{wheel.name}.libs")):
        (packages / folder.name).symlink_to(folder)
    monkeypatch.setattr(postgres, "programs", lambda major: packages / programs.relative_to(wheel.parent))
    monkeypatch.setattr(tempfile, "tempdir", str(private("temporary")))
    with postgres.running() as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@only_root
def test_where_its_user_reaches_no_folder_the_skipped_test_names_them(
    private: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = str(private("temporary"))
    monkeypatch.setattr(tempfile, "tempdir", closed)
    monkeypatch.setattr(postgres, "OPEN_FOLDERS", ())
    with pytest.raises(pytest.skip.Exception, match=f"`nobody`, who reaches none of {closed}"), postgres.running():
        pass

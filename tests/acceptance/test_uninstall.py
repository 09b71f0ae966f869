"""`goclaw uninstall` in a checkout: what was installed goes, the data after a last backup, and nothing else."""

import asyncio
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.checkouts import Home, made_home
from tests.acceptance.model import EchoModel
from tests.acceptance.versions import Repository
from tests.fake_telegram.server import FakeTelegram

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
async def home(folder: Path, telegram: FakeTelegram, model: EchoModel, tmp_path: Path) -> AsyncIterator[Home]:
    repository = await asyncio.to_thread(Repository.make, tmp_path / "upstream")
    async with made_home(folder, telegram, model, repository) as made:
        yield made


@pytest.mark.promise("P-uninstall")
async def test_what_was_installed_goes_and_the_data_only_after_a_backup_and_its_name(home: Home) -> None:
    links = home.folder / ".local" / "bin"
    links.mkdir(parents=True)
    (links / "goclaw").symlink_to(home.root / "scripts" / "run")
    completion = home.folder / ".zfunc" / "_goclaw"
    completion.parent.mkdir()
    completion.write_text("#compdef goclaw\n_GOCLAW_COMPLETE=complete_zsh goclaw\n")
    (home.folder / ".bashrc").write_text('export A=1\neval "$(_GOCLAW_COMPLETE=source_bash goclaw)"\n')
    own = home.state / "my notes.txt"
    own.write_text("mine")

    asked = await home.goclaw("uninstall", stdin="n\n")
    assert asked.code == 1 and home.is_alive()
    for place in (home.root / ".venv", home.root / ".tools", links / "goclaw", completion):
        assert str(place) in asked.out
    assert f"{home.folder / '.bashrc'}:2: your line" in asked.out
    assert f"Data: {home.state}" in asked.out and "stays" in asked.out

    mistaken = await home.goclaw("uninstall", "--yes", "--data", stdin="goclaw\n")
    assert mistaken.code == 1 and "that is a different name; nothing was removed" in mistaken.err
    assert home.is_alive() and (home.root / ".venv").is_dir() and completion.exists()

    last = home.folder / "last.tar.gz"
    done = await home.goclaw("uninstall", "--yes", "--data", "--backup", str(last), stdin="state\n")
    assert done.code == 0, done.err
    assert not home.is_alive()
    gone = (home.root / ".venv", home.root / ".tools", completion, home.state / "goclaw.db", home.state / "users.json")
    assert [place for place in gone if place.exists()] == [] and not (links / "goclaw").is_symlink()
    assert own.read_text() == "mine" and "my notes.txt" in done.err
    assert [path.name for path in home.state.iterdir()] == ["my notes.txt"]
    assert (home.root / "scripts" / "run").exists() and f"rm -r {home.root}" in done.err
    assert "_GOCLAW_COMPLETE" in (home.folder / ".bashrc").read_text()
    assert last.stat().st_mode & 0o777 == 0o600
    with tarfile.open(last) as archive:
        assert {"goclaw.db", "config.yaml", "users.json"} <= set(archive.getnames())

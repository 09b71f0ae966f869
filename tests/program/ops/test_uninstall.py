"""What GoClaw recognises as its own, and what it never removes."""

import os
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.config.state import LOCK, open_state
from goclaw.errors import StateError
from goclaw.program.ops.uninstall import (
    check_data,
    completions,
    in_checkout,
    is_ours,
    links,
    make_complete,
    remove_data,
    remove_whole,
    size_of,
    startup_lines,
)
from tests.tables import table


@pytest.fixture
def config(tmp_path: Path) -> Config:
    made = Config(state_dir=tmp_path / "state")
    make_complete(made)
    return made


def environment(folder: Path, stamp: str = ".origin") -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (folder / "bin" / "goclaw").write_text("#!/bin/sh\n")
    if stamp:
        (folder / stamp).touch()
    return folder


def test_an_environment_without_our_stamp_or_behind_a_link_is_not_ours(tmp_path: Path) -> None:
    environment(tmp_path / "one" / ".venv")
    (tmp_path / "one" / ".tools").mkdir()
    environment(tmp_path / "two" / ".venv", stamp="")
    elsewhere = environment(tmp_path / "elsewhere")
    (tmp_path / "two" / ".venv-dev").symlink_to(elsewhere)
    assert [item.path.name for item in in_checkout(tmp_path / "one")] == [".venv"]
    assert list(in_checkout(tmp_path / "two")) == []


@pytest.mark.promise("P-uninstall")
def test_a_link_is_ours_by_where_it_leads(tmp_path: Path) -> None:
    ours, theirs = environment(tmp_path / ".venv"), environment(tmp_path / "theirs")
    for name, target in (("a", ours), ("b", theirs)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "goclaw").symlink_to(target / "bin" / "goclaw")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "goclaw").write_text("a file")
    path = os.pathsep.join(str(folder) for folder in (tmp_path / "a", tmp_path / "b", tmp_path / "c", ours / "bin"))
    found = list(links([ours], {"PATH": path}, tmp_path))
    assert [item.path for item in found] == [tmp_path / "a" / "goclaw"]
    remove_whole(found[0].path)
    assert (ours / "bin" / "goclaw").exists()


def test_a_completion_is_ours_by_our_variable_in_it(tmp_path: Path) -> None:
    place = tmp_path / ".local" / "share" / "bash-completion" / "completions" / "goclaw"
    place.parent.mkdir(parents=True)
    place.write_text("complete -W 'a b' goclaw\n")
    assert list(completions(tmp_path)) == []
    place.write_text("_GOCLAW_COMPLETE=complete_bash goclaw\n")
    assert [item.path for item in completions(tmp_path)] == [place]
    (tmp_path / ".zshrc").write_text('\neval "$(_GOCLAW_COMPLETE=source_zsh goclaw)"\n')
    assert list(startup_lines(tmp_path)) == [f"{tmp_path / '.zshrc'}:2"]


@pytest.mark.promise("P-uninstall")
def test_a_state_folder_goes_but_for_what_is_not_ours(config: Config, tmp_path: Path) -> None:
    folder = config.state_dir
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (folder / "secrets").symlink_to(outside)
    (folder / "tools").mkdir()
    (folder / "tools" / "garden.py").touch()
    assert remove_data(config) == [folder / "tools"]
    assert [path.name for path in folder.iterdir()] == ["tools"] and (outside / "kept").exists()


def test_a_state_folder_that_is_all_ours_goes_whole(config: Config) -> None:
    assert remove_data(config) == [] and not config.state_dir.exists()


def test_the_data_are_not_removed_under_a_daemon(config: Config) -> None:
    with open_state(config), pytest.raises(StateError, match="another GoClaw"):
        remove_data(config)
    assert config.database_path.exists()


@pytest.mark.promise("P-uninstall")
def test_a_folder_that_holds_more_than_data_is_refused(config: Config, tmp_path: Path) -> None:
    folder = config.state_dir
    check_data(config, [tmp_path])
    with pytest.raises(StateError, match=r"also contains"):
        check_data(config, [folder / "home"])
    with pytest.raises(StateError, match=r"also contains"):
        check_data(config, [folder])
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(StateError, match="is a link"):
        check_data(config.model_copy(update={"state_dir": link}), [])
    with pytest.raises(StateError, match="no such folder"):
        check_data(config.model_copy(update={"state_dir": tmp_path / "none"}), [])
    with pytest.raises(StateError, match=r"also contains"):
        check_data(config.model_copy(update={"state_dir": Path("/")}), [tmp_path])
    (folder / LOCK).unlink()
    with pytest.raises(StateError, match="never used this folder"):
        check_data(config, [])


@table(
    "name, ours",
    [
        ("goclaw.db-wal", True),
        ("goclaw.db.damaged-20261121T120000Z", True),
        ("telegram-grown.json", True),
        ("blobs", True),
        ("thesis.odt", False),
        ("tools", False),
        (".git", False),
    ],
)
def test_an_entry_is_ours_by_its_name(name: str, ours: bool) -> None:
    assert is_ours(name) is ours


def test_a_size_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"12345")
    (tmp_path / "big").write_bytes(b"1" * 1000)
    (tmp_path / "a" / "link").symlink_to(tmp_path / "big")
    assert size_of(tmp_path / "a") < 500

"""In which folder a person's tools work."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.common.auth.users import User, Users, add_user, key_problem
from goclaw.common.auth.workplaces import WorkspacePlace, folder_name, in_words, place_of
from goclaw.common.config.schema import Config
from goclaw.common.core.events import AGENT_MARK
from goclaw.errors import ConfigError

GROUP, TOPIC = "telegram:-100", "telegram:-100:7"
ROLES = {"guest": {"workspace": "own"}, "clerk": {"workspace": "shared"}, "silent": {}}


def config(folder: Path, **settings: Any) -> Config:
    return Config.model_validate({"state_dir": folder, "workspace": folder / "work", "roles": ROLES, **settings})


def user(roles: Sequence[str] = (), **entry: Any) -> User:
    return User("tui:ann", roles=frozenset(roles), **entry)


@pytest.mark.promise("P-workspaces-per-person")
@pytest.mark.parametrize(
    ("entry", "shared", "per_person"),
    [
        ({}, "shared", "own"),
        ({"workspace": "own"}, "own", "own"),
        ({"workspace": "shared"}, "shared", "shared"),
        ({"roles": ["guest"]}, "own", "own"),
        ({"roles": ["clerk"]}, "shared", "shared"),
        ({"roles": ["clerk", "guest"]}, "own", "own"),
        ({"roles": ["silent", "none"]}, "shared", "own"),
        ({"roles": ["admin"]}, "shared", "own"),
        ({"roles": ["guest"], "workspace": "shared"}, "shared", "shared"),
        ({"roles": ["clerk"], "workspace": "own"}, "own", "own"),
    ],
)
def test_an_entry_goes_before_roles_and_these_before_the_configuration(
    tmp_path: Path, entry: dict[str, Any], shared: str, per_person: str
) -> None:
    own = WorkspacePlace(tmp_path / "people/tui.ann", tmp_path / "work")
    places = {"own": own, "shared": WorkspacePlace(tmp_path / "work")}
    assert place_of(config(tmp_path), user(**entry)) == places[shared], "as before, where nothing is set"
    assert place_of(config(tmp_path, workspaces="per-person"), user(**entry)) == places[per_person]


def test_a_folder_that_an_entry_names_stays_that_folder_without_a_shared_one(tmp_path: Path) -> None:
    named = user(workspace=tmp_path / "mine")
    here = config(tmp_path, workspaces="per-person")
    assert place_of(here, named) == place_of(here, named, GROUP) == WorkspacePlace(tmp_path / "mine")
    assert in_words(here, place_of(here, named)) == "a folder that an admin chose"


def test_in_a_group_everybody_works_in_the_configured_workspace(tmp_path: Path) -> None:
    here = config(tmp_path, workspaces="per-person")
    for session in (GROUP, TOPIC, f"{GROUP}{AGENT_MARK}agent-1"):
        assert place_of(here, user(), session) == WorkspacePlace(tmp_path / "work")
    assert place_of(here, user(), "telegram:5").shared and place_of(here, user(), "team").shared


def test_who_is_not_listed_works_in_the_configured_workspace(tmp_path: Path) -> None:
    assert place_of(config(tmp_path, workspaces="per-person"), None) == WorkspacePlace(tmp_path / "work")


def test_the_folder_belongs_to_the_key_and_stays_when_a_person_is_renamed(tmp_path: Path) -> None:
    here, ann = config(tmp_path, workspaces="per-person"), user(name="Ann")
    assert place_of(here, ann) == place_of(here, replace(ann, name="Anna", session="team"))
    assert in_words(here, place_of(here, ann)) == "your own (people/tui.ann), with shared/ for everybody"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("telegram:123456", r"telegram\.123456"),
        ("tui:ann-2_b.c", r"tui\.ann-2_b\.c"),
        ("tui:Ann", r"tui\.ann~[0-9a-f]{16}"),
        ("tui:../../etc", r"tui\.\.\._\.\._etc~[0-9a-f]{16}"),
        ("tui:a:b", r"tui\.a_b~[0-9a-f]{16}"),
        ("tui:" + "x" * 300, r"tui\.x{36}~[0-9a-f]{16}"),
        ("tui:josé", r"tui\.jos_~[0-9a-f]{16}"),
    ],
)
def test_the_folders_name_is_the_key_where_that_is_a_plain_name(key: str, name: str) -> None:
    assert re.fullmatch(name, folder_name(key))


KEYS = st.from_regex(r"[a-z][a-z0-9_-]{0,9}:[^\s]{1,90}", fullmatch=True)


@given(st.lists(KEYS, min_size=2, max_size=2, unique=True))
def test_no_two_keys_have_one_folder_and_none_leads_out(keys: list[str]) -> None:
    one, other = map(folder_name, keys)
    assert one.casefold() != other.casefold()
    for name in (one, other):
        assert "/" not in name and ":" not in name and not name.startswith(".") and len(name.encode()) <= 100


def test_keys_that_differ_in_their_separators_have_folders_of_their_own() -> None:
    keys = [
        "tui:a-b",
        "tui-a:b",
        "tui:a.b",
        "tui:a_b",
        "tui:A-b",
        "tui:a~b",
        folder_name("tui:A-b").replace(".", ":", 1),
    ]
    assert all(key_problem(key) is None for key in keys)
    assert len(set(map(folder_name, keys))) == len(keys)


def listed(path: Path, workspace: str) -> User:
    path.write_text(json.dumps({"users": {"tui:ann": {"workspace": workspace}}}))
    found = Users.read(path).get("tui:ann")
    assert found is not None
    return found


def test_the_two_words_of_users_json_mean_no_folder_unless_an_earlier_version_made_it(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    for word in ("own", "shared"):
        assert listed(file, word).workspace == word
        assert listed(file, f"./{word}").workspace == tmp_path / word
        (tmp_path / word).mkdir()
        assert listed(file, word).workspace == tmp_path / word, "an upgrade takes no files away"
    assert listed(file, "cem").workspace == tmp_path / "cem"


def test_a_person_is_added_with_a_workspace(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    add_user(file, "tui:ann", workspace="own")
    add_user(file, "tui:bob")
    assert json.loads(file.read_text())["users"]["tui:ann"]["workspace"] == "own"
    assert "workspace" not in json.loads(file.read_text())["users"]["tui:bob"]
    with pytest.raises(ConfigError, match="tui:eve: workspace: should not be empty or begin"):
        add_user(file, "tui:eve", workspace=" own")

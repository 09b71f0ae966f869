"""Where a change of a prompt file needs an approval: whose workspaces lie in each other."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from goclaw.common.auth.shared_workspaces import approved_files, is_shared, users_within
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock

ADMIN = frozenset({"admin"})


def config(folder: Path, **settings: Any) -> Config:
    return Config.model_validate({"state_dir": folder / "state", "workspace": folder / "work", **settings})


def user(key: str, roles: frozenset[str] = frozenset(), workspace: Path | None = None) -> User:
    return User(f"telegram:{key}", roles=roles, workspace=workspace)


@pytest.mark.promise("P-prompt-approved")
@pytest.mark.parametrize(
    ("users", "shared"),
    [
        ([], False),
        ([user("1")], False),
        ([user("1", ADMIN)], False),
        ([user("1", ADMIN), user("2", ADMIN)], False),
        ([user("1", ADMIN), user("2")], True),
        ([user("1"), user("2")], True),
        ([user("1", ADMIN), user("2", frozenset({"helper"}))], True),
    ],
)
def test_a_workspace_is_shared_where_somebody_who_is_no_admin_has_it_beside_others(
    tmp_path: Path, users: list[User], shared: bool
) -> None:
    assert is_shared(config(tmp_path), users, tmp_path / "work") is shared


def test_the_disk_is_asked_once_for_each_folder_and_not_for_each_user(tmp_path: Path) -> None:
    people = [user(str(number)) for number in range(1_000)]
    called = Counter[str]()

    def count(frame: FrameType, event: str, _: object) -> None:
        called[frame.f_code.co_name] += event == "call"

    sys.setprofile(count)
    try:
        found = users_within(config(tmp_path), people, tmp_path / "work")
    finally:
        sys.setprofile(None)
    assert len(found) == len(people)
    assert called["realpath"] == 2, "of the folder, and of the one workspace"


@pytest.mark.promise("P-prompt-approved")
def test_a_user_of_a_folder_around_a_workspace_writes_in_it(tmp_path: Path) -> None:
    outer, inner = tmp_path / "all", tmp_path / "all" / "ann"
    inner.mkdir(parents=True)
    (tmp_path / "link").symlink_to(inner)
    ann, bob = user("1", ADMIN, tmp_path / "link"), user("2", workspace=outer)
    assert users_within(config(tmp_path), [ann, bob], inner) == [ann, bob]
    assert is_shared(config(tmp_path), [ann, bob], tmp_path / "link")
    assert not is_shared(config(tmp_path), [ann, bob], outer), "no other user works there"


@pytest.mark.promise("P-prompt-approved")
def test_all_with_workspaces_of_their_own_write_in_the_one_that_they_share(tmp_path: Path) -> None:
    people = [user("1", ADMIN), user("2")]
    here = config(tmp_path, workspaces="per-person")
    assert is_shared(here, people, tmp_path / "work"), "by shared/, and in groups"
    assert not is_shared(here, people, tmp_path / "state/people/telegram.2")
    assert users_within(here, people, tmp_path / "state/people/telegram.2") == [people[1]]


async def test_the_configuration_and_the_users_of_now_decide(tmp_path: Path) -> None:
    approved = approved_files(config(tmp_path), Users([user("1"), user("2")]), SteppedClock())
    assert approved.is_shared(tmp_path / "work") and not approved.is_shared(tmp_path)

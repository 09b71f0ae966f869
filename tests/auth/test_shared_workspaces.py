"""Where a change of a prompt file needs an approval: whose workspaces lie in each other."""

from pathlib import Path

import pytest

from goclaw.auth.shared_workspaces import approved_files, is_shared, users_within
from goclaw.auth.users import User, Users
from goclaw.config.schema import Config
from goclaw.core.clock import SteppedClock

ADMIN = frozenset({"admin"})


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
    assert is_shared(users, tmp_path, tmp_path) is shared


@pytest.mark.promise("P-prompt-approved")
def test_a_user_of_a_folder_around_a_workspace_writes_in_it(tmp_path: Path) -> None:
    outer, inner = tmp_path / "all", tmp_path / "all" / "ann"
    inner.mkdir(parents=True)
    (tmp_path / "link").symlink_to(inner)
    ann, bob = user("1", ADMIN, tmp_path / "link"), user("2", workspace=outer)
    assert users_within([ann, bob], tmp_path / "default", inner) == [ann, bob]
    assert is_shared([ann, bob], tmp_path / "default", tmp_path / "link")
    assert not is_shared([ann, bob], tmp_path / "default", outer), "no other user works there"


async def test_the_configuration_and_the_users_of_now_decide(tmp_path: Path) -> None:
    config = Config.model_validate({"state_dir": tmp_path / "state", "workspace": tmp_path / "work"})
    approved = approved_files(config, Users([user("1"), user("2")]), SteppedClock())
    assert approved.is_shared(tmp_path / "work") and not approved.is_shared(tmp_path)

"""users.json: what it may say, how it stays in force, how it is changed."""

import asyncio
import json
import stat
from pathlib import Path

import pytest

from goclaw.common.auth.users import LOOK_SECONDS, Users, add_user, open_users
from goclaw.common.core.clock import SteppedClock
from goclaw.errors import ConfigError
from tests.harness import before_the_next_look
from tests.tables import table

SPEC = {"users": {"telegram:123456": {"name": "User", "roles": ["user"], "allowedTools": ["read", "memory_search"]}}}


def entry(fields: str) -> str:
    return '{"users": {\n  "telegram:5": {\n    ' + fields + "\n  }\n}}\n"


BROKEN = [
    ("", "1:1", ["the file is empty"]),
    ('{"users": {', "1:12", ["ends in the middle"]),
    ('{"users": {}, 5}', "1:15", ["double quotes", "remove a comma"]),
    ("{'users': {}}", "1:2", ["double quotes"]),
    ('{"users": {}} x', "1:15", ["not JSON"]),
    ('{\n  // people\n  "users": {}}', "2:3", ["double quotes"]),
    ("[]", "1:1", ["not a list"]),
    ("{}", "1:1", ["users: is missing"]),
    ('{"usres": {}}', "1:2", ["usres", "`users`"]),
    ('{"users": []}', "1:2", ["users", "mapping", "a list"]),
    ('{"users": {"telegram:5": []}}', "1:12", ["users.telegram:5", "mapping"]),
    ('{"users": {"telegram:5": {}, "telegram:5": {}}}', "1:30", ["duplicate key", "1:12"]),
    ('{"users": {}, "users": {}}', "1:15", ["users", "duplicate key"]),
    ('{"users": {"@ann": {}}}', "1:12", ["<channel>:<id>"]),
    ('{"users": {"123456": {}}}', "1:12", ["`telegram:123456`"]),
    ('{"users": {"telegram:@ann": {}}}', "1:12", ["numeric user id", "goclaw logs"]),
    ('{"users": {"telegram:ann": {}}}', "1:12", ["numeric user id"]),
    ('{"users": {"telegram:-100123": {}}}', "1:12", ["group"]),
    ('{"users": {"telegram:05": {}}}', "1:12", ["numeric user id"]),
    ('{"users": {"telegram:٥": {}}}', "1:12", ["numeric user id"]),
    ('{"users": {"Telegram:5": {}}}', "1:12", ["lower case", "`telegram:5`"]),
    ('{"users": {"tui: ann": {}}}', "1:12", ["one word"]),
    ('{"users": {"": {}}}', "1:12", ["<channel>:<id>"]),
    (entry('"allowedtools": []'), "3:5", ["`allowedTools`"]),
    (entry('"allowed_tools": []'), "3:5", ["`allowedTools`"]),
    (entry('"allowedTools": "read"'), "3:5", ["allowedTools", "list"]),
    (entry('"allowedTools": null'), "3:5", ["allowedTools", "list", "nothing"]),
    (entry('"allowedTools": ["read", 5]'), "3:30", ["allowedTools[1]", "text"]),
    (entry('"allowedTools": [""]'), "3:5", ["names of tools"]),
    (entry('"roles": "admin"'), "3:5", ["roles", "list"]),
    (entry('"roles": [true]'), "3:15", ["roles[0]", "text"]),
    (entry('"name": 5'), "3:5", ["name", "text", "quotes"]),
    (entry('"session": ""'), "3:5", ["session", "leave the key out"]),
    (entry('"quietHours": "night"'), "3:5", ["quietHours", "write hours like 08:00-22:00 or 22:00-07:00"]),
    (entry('"session": "a/agent:b"'), "3:5", ["session", "`/agent:`"]),
    (entry('"workspace": 5'), "3:5", ["workspace", "text"]),
    (entry('"name": NaN'), "1:1", ["NaN"]),
    ("[" * 100_000, "1:1", ["nested"]),
]


@pytest.mark.promise("P-config-errors")
@table("text, position, words", BROKEN)
def test_a_broken_file_is_refused_with_position_and_remedy(
    tmp_path: Path, text: str, position: str, words: list[str]
) -> None:
    path = tmp_path / "users.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Users.read(path)
    line = next((line for line in caught.value.problems if f"users.json:{position}: " in line), "")
    assert line, caught.value.problems
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize("content", [b"\0\1", b'{"users": {"tui:\xff": {}}}'])
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "users.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"users\.json.*text"):
        Users.read(path)


def test_the_entries_mean_what_the_specification_says(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    more = {"telegram:5": {}, "tui:ann": {"allowedTools": [], "session": "telegram:5", "workspace": "ann"}}
    path.write_text(json.dumps({"users": SPEC["users"] | more}, indent="\t"))
    users = Users.read(path)
    listed = users.get("telegram:123456")
    assert listed
    assert (listed.name, listed.roles) == ("User", frozenset({"user"}))
    assert listed.allowed_tools == frozenset({"read", "memory_search"})
    plain, ann = users.get("telegram:5"), users.get("tui:ann")
    assert plain
    assert plain.allowed_tools is None
    assert ann
    assert ann.allowed_tools == frozenset()
    assert (ann.session, ann.workspace) == ("telegram:5", tmp_path / "ann")
    assert users.get("telegram:6") is None
    assert [user.key for user in users.all()] == ["telegram:123456", "telegram:5", "tui:ann"]


async def test_a_missing_file_lists_nobody(tmp_path: Path) -> None:
    async with open_users(tmp_path / "users.json", SteppedClock()) as users:
        assert users.all() == ()
        assert users.problem is None


async def test_a_broken_file_at_the_start_is_refused(tmp_path: Path) -> None:
    (tmp_path / "users.json").write_text("{")
    with pytest.raises(ConfigError):
        async with open_users(tmp_path / "users.json", SteppedClock()):
            pytest.fail("opened")


@pytest.mark.promise("P-users-live")
@pytest.mark.parametrize("way", ["rewritten", "replaced", "moved away first"])
async def test_a_change_is_in_force_within_two_seconds(tmp_path: Path, way: str) -> None:
    path = tmp_path / "users.json"
    path.write_text(json.dumps(SPEC))
    clock = SteppedClock()
    async with open_users(path, clock) as users:
        began = clock.monotonic()
        text = json.dumps({"users": {"telegram:7": {}}})
        if way == "rewritten":
            path.write_text(text)
        else:
            if way == "moved away first":
                path.rename(tmp_path / "users.json~")
            (tmp_path / "new").write_text(text)
            (tmp_path / "new").rename(path)
        async with asyncio.timeout(20):
            while users.get("telegram:7") is None:
                if clock.sleepers:  # no look is under way
                    clock.advance(0.1)
                await before_the_next_look()
        assert clock.monotonic() - began <= 2
        assert users.get("telegram:123456") is None


async def test_a_change_of_entries_is_announced_once_and_a_broken_file_is_none(tmp_path: Path) -> None:
    path, seen = tmp_path / "users.json", list[int]()
    path.write_text(json.dumps(SPEC))
    users = Users.read(path)
    users.changes.append(lambda: seen.append(len(users.all())))
    for text in (json.dumps(SPEC), "{", json.dumps({"users": {"tui:ann": {}}}), json.dumps({"users": {"tui:ann": {}}})):
        path.write_text(text)
        await users.refresh()
    assert seen == [1]


@pytest.mark.promise("P-users-live")
@pytest.mark.parametrize("text", ["", '{"users": {', '{"users": {"telegram:@x": {}}}', "[]"])
async def test_a_file_broken_later_leaves_the_last_good_one_in_force(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users.json"
    path.write_text(json.dumps(SPEC))
    users = Users.read(path)
    path.write_text(text)
    await users.refresh()
    assert users.get("telegram:123456")
    assert users.problem
    assert "users.json:1:" in users.problem
    assert "last valid version" in users.problem
    path.write_text(json.dumps(SPEC))
    await users.refresh()
    assert users.problem is None


async def test_a_file_that_turns_unreadable_is_a_problem_until_it_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text(json.dumps(SPEC))
    users = Users.read(path)
    path.rename(tmp_path / "kept")
    path.mkdir()
    await users.refresh()
    assert users.problem
    assert "is not a file" in users.problem
    assert users.get("telegram:123456")
    path.rmdir()
    (tmp_path / "kept").rename(path)
    await users.refresh()
    assert users.problem is None


async def test_a_removed_file_lists_nobody_at_the_second_look(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text(json.dumps(SPEC))
    users = Users.read(path)
    path.unlink()
    await users.refresh()
    assert users.get("telegram:123456")
    await users.refresh()
    assert users.all() == ()
    assert 2 * LOOK_SECONDS <= 2


def test_adding_a_user_keeps_everything_else_and_makes_the_file_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "users.json"
    add_user(path, "telegram:5", name="Änn", roles=["admin"], allowed_tools=["read"])
    add_user(path, "tui:bob")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {
        "users": {
            "telegram:5": {"name": "Änn", "roles": ["admin"], "allowedTools": ["read"]},
            "tui:bob": {"roles": ["user"]},
        }
    }
    assert [file.name for file in path.parent.iterdir()] == ["users.json"]


def test_adding_through_a_link_changes_the_file_behind_it(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text(json.dumps(SPEC))
    link = tmp_path / "users.json"
    link.symlink_to("real.json")
    add_user(link, "telegram:5")
    assert link.is_symlink()
    assert set(json.loads(link.read_text())["users"]) == {"telegram:123456", "telegram:5"}


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        (json.dumps(SPEC), "telegram:123456", "already listed"),
        (json.dumps(SPEC), "telegram:@ann", "numeric user id"),
        ("{", "telegram:5", "not JSON"),
    ],
)
def test_adding_refuses_what_would_not_be_read_and_changes_nothing(
    tmp_path: Path, text: str, key: str, message: str
) -> None:
    path = tmp_path / "users.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        add_user(path, key)
    assert path.read_text() == text


async def test_users_added_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    async with asyncio.timeout(20):
        await asyncio.gather(*(asyncio.to_thread(add_user, path, f"telegram:{number}") for number in range(1, 21)))
    assert len(Users.read(path).all()) == 20

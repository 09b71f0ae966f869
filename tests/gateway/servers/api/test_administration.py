"""What is for admins: the log, the users, the configuration; each refused to others, no secret shown."""

import json
from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.health.logs import log_path
from tests.gateway.servers.api.calling import service, world_with
from tests.gateway.servers.calling import ANN, BOB

ADMIN = User("memory:root", "Root", roles=frozenset({"admin"}))
ROOT = ADMIN.key

pytestmark = pytest.mark.promise("P-api")


async def test_a_plain_user_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    world = world_with(tmp_path, users=(ANN, ADMIN))
    async with world.running() as core, service(world, core) as served:
        for path in ("/logs", "/users", "/config"):
            refused = await served.get(path)
            assert (refused.status, refused.problem["detail"]) == (403, "this is for admins"), path
        refused = await served.send("PATCH", "/config", {"key": "log_level", "value": "DEBUG"})
        assert refused.status == 403
        assert not [each for each in served.audited if each.action == "config.change"]


async def test_the_log_comes_from_the_end_by_severity_and_with_secrets_masked(tmp_path: Path) -> None:
    world = world_with(tmp_path, users=(ANN, ADMIN))
    secret = "sk-ant-" + "a1b2" * 12
    path = log_path(world.config)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"level": "info", "event": f"line {number}", "turn": f"t:{number}"} for number in range(300)]
    lines += [{"level": "error", "event": f"failed with {secret}", "session": "memory:x"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "no record\n")
    async with world.running() as core, service(world, core) as served:
        newest = (await served.get("/logs?lines=3", user=ROOT)).said["records"]
        assert [each["event"] for each in newest[:2]] == ["line 298", "line 299"] and len(newest) == 3
        (error,) = (await served.get("/logs?level=error", user=ROOT)).said["records"]
        assert secret not in str(error) and error["event"].startswith("failed with")
        (of_turn,) = (await served.get("/logs?turn=t:7", user=ROOT)).said["records"]
        assert of_turn["event"] == "line 7"
        assert (await served.get("/logs?session=memory:x", user=ROOT)).said["records"] == [error]
        assert (await served.get("/logs?lines=1001", user=ROOT)).problem["status"] == 400


async def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    world = world_with(tmp_path, users=(ADMIN,))
    async with world.running() as core, service(world, core) as served:
        assert (await served.get("/logs", user=ROOT)).said == {"records": []}


async def test_users_are_listed_as_in_the_file(tmp_path: Path) -> None:
    world = world_with(tmp_path, users=(ANN, BOB, ADMIN))
    async with world.running() as core, service(world, core) as served:
        listed = (await served.get("/users", user=ROOT)).said["users"]
        assert [(each["key"], each["roles"]) for each in listed] == [
            (each.key, sorted(each.roles)) for each in (ANN, BOB, ADMIN)
        ]


async def test_the_configuration_is_shown_without_secrets(tmp_path: Path) -> None:
    world = world_with(tmp_path, users=(ADMIN,))
    async with world.running() as core, service(world, core) as served:
        found = (await served.get("/config", user=ROOT)).said
        assert 'log_level: "INFO"' in found["values"] and "log_level" in found["changeable"]
        (token,) = [line for line in found["values"] if line.startswith("telegram.token:")]
        assert token in ("telegram.token: null", "telegram.token: ********")


async def test_a_live_key_is_changed_in_the_file_and_audited_and_others_are_refused(tmp_path: Path) -> None:
    world = world_with(tmp_path, users=(ADMIN,))
    async with world.running() as core, service(world, core) as served:
        file = served.config_file
        changed = await served.send("PATCH", "/config", {"key": "memory.max_results", "value": 7}, user=ROOT)
        assert changed.said == {"key": "memory.max_results", "value": 7, "restart": True}
        assert "max_results: 7" in file.read_text()
        before = file.read_bytes()
        for key, value in (("models.agent", "x:y"), ("http.host", "0.0.0.0"), ("memory.max_results", 0)):  # noqa: S104 - refused
            refused = await served.send("PATCH", "/config", {"key": key, "value": value}, user=ROOT)
            assert refused.status == 409 and key in refused.problem["detail"]
        assert file.read_bytes() == before
        assert [(each.object, each.actor.key) for each in served.audited if each.action == "config.change"] == [
            ("memory.max_results", ROOT)
        ]

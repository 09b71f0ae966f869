"""The doctor finds what is broken and says what helps."""

import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from goclaw.common.config.load import Loaded, load_config
from goclaw.common.health.resources import DiskUse
from goclaw.durable.store.sqlite.backup import NEWEST
from goclaw.durable.store.sqlite.migrations import migrate
from goclaw.durable.store.sqlite.recovery import make_ready, mark_damaged
from goclaw.program.ops import doctor
from goclaw.program.ops.doctor import Finding, examine
from goclaw.tools.execution.sandbox.select import TierReport
from tests.fake_telegram.server import FakeTelegram
from tests.small_disk import small_disk


def loaded(tmp_path: Path, **settings: str) -> Loaded:
    return load_config(overrides={"state_dir": str(tmp_path / "state"), **settings}, environ={})


async def found(tmp_path: Path, check: str, **settings: str) -> list[Finding]:
    return [finding for finding in await examine(loaded(tmp_path, **settings)) if finding.check == check]


async def test_a_new_installation_has_no_problem(tmp_path: Path) -> None:
    verdicts = {finding.check: finding.verdict for finding in await examine(loaded(tmp_path))}
    assert "problem" not in verdicts.values()
    assert verdicts["model"] == "warning"


async def test_a_sound_database_is_said_to_be_sound(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    migrate(tmp_path / "state" / "goclaw.db")
    assert f"sound, schema {NEWEST}" in (await found(tmp_path, "database"))[0].text


async def test_a_damaged_database_is_a_problem_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "goclaw.db").write_bytes(b"damaged" * 1000)
    finding = (await found(tmp_path, "database"))[0]
    assert finding.verdict == "problem"
    assert "restore" in finding.remedy


async def test_what_was_set_aside_or_rescued_is_named_with_the_way_to_go_on(tmp_path: Path) -> None:
    path = tmp_path / "state" / "goclaw.db"
    path.parent.mkdir()
    path.write_bytes(b"damaged" * 1000)
    make_ready(path)
    path.with_name("goclaw.db.rescued-1").touch()
    sound, aside, rescued = await found(tmp_path, "database")
    assert sound.verdict == "ok"
    assert aside.verdict == rescued.verdict == "warning"
    assert "goclaw.db.damaged-" in aside.text and "file is not a database" in aside.text
    assert "goclaw restore" in aside.remedy and "rm " in aside.remedy
    assert f"mv {path}.rescued-1 {path}" in rescued.remedy


async def test_damage_that_was_met_while_it_ran_is_a_problem_until_the_restart(tmp_path: Path) -> None:
    path = tmp_path / "state" / "goclaw.db"
    path.parent.mkdir()
    migrate(path)
    mark_damaged(path, "database disk image is malformed")
    (finding,) = await found(tmp_path, "database")
    assert finding.verdict == "problem"
    assert "goclaw restart" in finding.remedy


async def test_a_state_folder_that_takes_no_file_is_a_problem(tmp_path: Path) -> None:
    with small_disk(tmp_path / "state", megabytes=1) as disk:
        disk.fill()
        (finding,) = await found(tmp_path, "state")
    assert finding.verdict == "problem"
    assert "make room" in finding.text


async def test_a_database_of_a_newer_version_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    path = tmp_path / "state" / "goclaw.db"
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=99")
    assert "newer" in (await found(tmp_path, "database"))[0].text


async def test_little_room_on_the_disk_is_a_warning_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await found(tmp_path, "disk"))[0].verdict == "ok"
    monkeypatch.setattr(
        "goclaw.program.ops.doctor.state.measure", lambda config: DiskUse(database=1, media=1, logs=1, free=1_000_000)
    )
    finding = (await found(tmp_path, "disk"))[0]
    assert finding.verdict == "warning"
    assert "1.0 MB free: little space is free" in finding.text
    assert "state_dir" in finding.remedy


async def test_a_broken_users_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "users.json").write_text('{"users": [')
    finding = (await found(tmp_path, "users"))[0]
    assert finding.verdict == "problem"
    assert "users.json:1" in finding.text


async def test_a_telegram_token_is_tried_against_the_server(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        settings = {"telegram.base_url": telegram.base_url, "telegram.token": telegram.token}
        good = (await found(tmp_path, "telegram", **settings))[0]
        settings["telegram.token"] = "123456:" + "wrong" * 8
        bad = (await found(tmp_path, "telegram", **settings))[0]
    assert (good.verdict, bad.verdict) == ("ok", "problem")
    assert "wrong" not in bad.line()


async def test_a_taken_port_is_a_problem_before_the_daemon_starts(tmp_path: Path) -> None:
    assert (await found(tmp_path, "http"))[0].text == "the listener is off: nothing needs it"
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings = {"http.enabled": "true", "http.port": str(other.getsockname()[1])}
        taken = (await found(tmp_path, "http", **settings))[0]
    assert taken.verdict == "problem" and "http.port" in taken.remedy
    assert (await found(tmp_path, "http", **settings))[0].verdict == "ok"


async def test_a_context_that_privacy_mode_keeps_empty_is_named(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        settings = {"telegram.base_url": telegram.base_url, "telegram.token": telegram.token}
        silent = await found(tmp_path, "groups", **settings, **{"telegram.groups": '{"-100": {"context": 0}}'})
        [said] = await found(tmp_path, "groups", **settings, **{"telegram.groups": '{"-100": {"context": 5}}'})
    assert silent == []
    assert (said.verdict, "-100" in said.text, "/setprivacy" in said.remedy) == ("warning", True, True)


async def test_what_telegram_says_of_the_webhook_is_passed_on(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        url = "https://claw.example.org/hook"
        settings = {"telegram.base_url": telegram.base_url, "telegram.token": telegram.token}
        assert await found(tmp_path, "webhook", **settings) == []
        telegram.world.webhook = url
        assert "polling" in (await found(tmp_path, "webhook", **settings))[0].text
        settings |= {"telegram.mode": "webhook", "telegram.webhook.url": url}
        assert (await found(tmp_path, "webhook", **settings))[0].verdict == "ok"
        await telegram.world.say("hello")
        await telegram.wait_for(lambda: telegram.world.webhook_error or None)
        finding = (await found(tmp_path, "webhook", **settings))[0]
        assert finding.verdict == "warning" and "Connection refused" in finding.text
        telegram.world.webhook = ""
        assert "the daemon registers it when it starts" in (await found(tmp_path, "webhook", **settings))[0].text


@pytest.mark.parametrize("sandbox", ["off"])
async def test_an_exec_without_containment_is_a_warning(tmp_path: Path, sandbox: str) -> None:
    assert (await found(tmp_path, "exec", **{"tools.exec.sandbox": sandbox}))[0].verdict == "warning"


@pytest.mark.parametrize("broker_works", [True, False])
async def test_in_a_container_bubblewrap_is_no_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, broker_works: bool
) -> None:
    reports = [
        TierReport("bubblewrap", False, "bubblewrap does not work", "install bubblewrap"),
        TierReport("broker", broker_works, "broker", "mend the broker"),
    ]
    monkeypatch.setattr(doctor, "probe", AsyncMock(return_value=reports))
    monkeypatch.setattr(doctor, "is_container", lambda: True)
    (finding,) = await found(tmp_path, "exec")
    assert (finding.verdict, finding.remedy) == (("ok", "") if broker_works else ("problem", "mend the broker"))

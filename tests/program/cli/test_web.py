"""`goclaw web`: a link from the running daemon, and a browser that is led there without telling the neighbours."""

import asyncio
import json
import stat
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.files import shown_path
from goclaw.errors import StateError
from goclaw.gateway.servers.socket_file import open_socket
from goclaw.program.app.web import page_address
from goclaw.program.cli.program import run
from goclaw.program.cli.web import LEADS_FILE
from tests.harness import World

pytestmark = pytest.mark.promise("P-web-login")
LINK = "http://127.0.0.1:8137/#link=goclaw_" + "x" * 43
UNKNOWN = "tui:eve is not in users.json; run `goclaw users add tui:eve` first"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration with the page, and a browser that writes down what it is started with."""
    (tmp_path / "state").mkdir(mode=0o700)
    write(tmp_path, web=True)
    monkeypatch.setenv("GOCLAW_CONFIG", str(tmp_path / "config.yaml"))
    for name in ("GOCLAW_STATE_DIR", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/started\n')
    browser.chmod(0o700)
    return tmp_path


def write(folder: Path, **http: object) -> None:
    (folder / "config.yaml").write_text(json.dumps({"state_dir": str(folder / "state"), "http": http}))


@asynccontextmanager
async def daemon(folder: Path) -> AsyncIterator[list[str]]:
    """The socket of a daemon; yields for which users it made links."""
    asked: list[str] = []

    async def link(user: str) -> str:
        if user == "tui:eve":
            raise StateError(UNKNOWN)
        asked.append(user)
        return LINK

    world = World(folder)
    async with world.running() as core:
        async with open_socket(folder / "state" / "goclaw.sock", core.gateway, world.clock, lambda: "", link):
            yield asked


async def command(arguments: Sequence[str]) -> int:
    """Run a command line beside the daemon; returns its exit code."""
    return await asyncio.to_thread(run, arguments)


async def test_a_link_is_printed_for_the_owner_or_for_a_person(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with daemon(home) as asked:
        assert await command(["web"]) == 0
        said = capsys.readouterr()
        assert said.out == f"{LINK}\n" and "all rights of the owner, within 60 s" in said.err
        assert "goclaw_" not in said.err and not (home / "started").exists(), "there is no browser here"
        assert await command(["web", "--user", "tui:ann", "--no-open"]) == 0
        assert "as tui:ann" in capsys.readouterr().err and asked == ["", "tui:ann"]
        assert await command(["web", "--user", "tui:eve"]) == 1
        assert UNKNOWN in capsys.readouterr().err


async def test_the_browser_is_led_by_a_file_so_that_no_process_list_has_the_link(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", str(home / "browser"))
    monkeypatch.setattr(webbrowser, "_tryorder", None)  # it looks at the variable once a process
    async with daemon(home):
        assert await command(["web", "--no-open"]) == 0
        assert not (home / "started").exists()
        assert await command(["web"]) == 0
    lead = home / "state" / LEADS_FILE
    assert (home / "started").read_text() == f"{lead.as_uri()}\n"
    assert stat.S_IMODE(lead.stat().st_mode) == 0o600 and LINK in lead.read_text()


async def test_what_is_missing_is_said_with_what_helps(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await command(["web"]) == 1
    assert "no GoClaw daemon answers; start it with `goclaw start`" in capsys.readouterr().err
    write(home, web=False)
    assert await command(["web"]) == 1
    file = shown_path(home / "config.yaml")
    assert f"the web page is off: set `http.web: true` in {file}, then `goclaw restart`" in capsys.readouterr().err


def test_a_link_leads_to_the_public_address_or_to_this_machine() -> None:
    def address(**http: object) -> str:
        return page_address(Config.model_validate({"http": http}), 8137)

    assert address() == "http://127.0.0.1:8137"
    assert address(host="::1") == "http://[::1]:8137"
    assert address(host="0.0.0.0") == "http://127.0.0.1:8137"  # noqa: S104 - looked up, not bound
    assert address(public_url="https://claw.example.org/") == "https://claw.example.org"

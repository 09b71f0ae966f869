"""A daemon elsewhere: its address, the token, and that neither leaks."""

from pathlib import Path

import pytest

from goclaw.clients.tui.client import RemoteDaemon, attach, person_at, remote_of
from goclaw.common.auth.users import login_name
from goclaw.errors import ConfigError, StateError

TOKEN = "goclaw_" + "x" * 43


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8137", "http://localhost:8137/", "http://[::1]:1", "https://claw.example.org/x"]
)
def test_plain_http_goes_to_this_machine_only(url: str, file: Path) -> None:
    remote, warnings = remote_of(url, file)
    assert (remote.url, remote.token, warnings) == (url.rstrip("/"), TOKEN, [])
    assert TOKEN not in repr(remote) and TOKEN not in str(remote)


@pytest.mark.parametrize("url", ["http://10.0.0.5:8137", "http://claw.example.org", "http://127.0.0.1.evil.example:1"])
def test_a_token_is_not_sent_readable_to_others_unless_told(url: str, file: Path) -> None:
    with pytest.raises(ConfigError, match="the whole conversation unencrypted"):
        remote_of(url, file)
    assert remote_of(url, file, insecure=True)[0].url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8137",
        "ws://127.0.0.1",
        "http://",
        "http://u:p@127.0.0.1",
        "http://127.0.0.1?token=x",
        "http://[::1",
    ],
)
def test_an_address_is_one_and_holds_no_token(url: str, file: Path) -> None:
    with pytest.raises(ConfigError, match="--url should look like"):
        remote_of(url, file)


def test_the_token_comes_from_a_file_or_the_environment(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOCLAW_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="GOCLAW_TOKEN holds no token"):
        remote_of("http://127.0.0.1:1", None)
    monkeypatch.setenv("GOCLAW_TOKEN", "goclaw_env")
    assert remote_of("http://127.0.0.1:1", None)[0].token == "goclaw_env"
    assert remote_of("http://127.0.0.1:1", file)[0].token == TOKEN
    for text in ("", "two words", "line\nline", "\x1b[2J"):
        file.write_text(text)
        with pytest.raises(ConfigError, match="holds no token"):
            remote_of("http://127.0.0.1:1", file)
    with pytest.raises(ConfigError, match="cannot be read"):
        remote_of("http://127.0.0.1:1", tmp_path / "missing")


def test_a_token_file_that_others_can_read_is_warned_about(file: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    file.chmod(0o644)
    _, warnings = remote_of("http://127.0.0.1:1", file)
    assert "others can read this token" in warnings[0] and TOKEN not in warnings[0]


def test_who_sits_here_is_who_the_daemon_says() -> None:
    assert person_at(RemoteDaemon("http://x", TOKEN, "telegram:5"), "tui:ann") == "telegram:5"
    assert person_at(Path("s"), "tui:ann") == "tui:ann"
    assert person_at(Path("s"), "team") == f"tui:{login_name()}"


async def test_where_nobody_answers_the_sentence_holds_no_token() -> None:
    with pytest.raises(StateError, match="no GoClaw daemon answers at http://127") as caught:
        async with attach(RemoteDaemon("http://127.0.0.1:9", TOKEN), ""):
            pass
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("kind", ["file", "link"])
async def test_nothing_is_said_to_what_is_no_socket_of_ours(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s"
    if kind == "file":
        path.write_text("x")
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="is not the socket of your own daemon"):
        async with attach(path, "tui:me"):
            pass

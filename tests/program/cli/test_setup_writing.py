"""Answers become files: all or none, private, and never over something that exists."""

import json
import os
import signal
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from goclaw.common.auth.users import User, Users
from goclaw.common.config.load import Loaded, load_config
from goclaw.errors import ConfigError, StateError
from goclaw.program.cli import setup
from goclaw.program.cli.setup import (
    SetupPaths,
    SetupReport,
    additions,
    caveats,
    check_places,
    new_files,
    secret_name,
    write_answers,
)
from goclaw.program.cli.setup_dialogue import AdminAnswer, BotChoice, ModelChoice, SetupAnswers, read_secret
from tests.interrupts import interruptible

pytestmark = pytest.mark.usefixtures("no_keys")

KEY, TOKEN = "sk-0123456789abcdefghij", "123456:AAtoken-of-a-bot-that-is-none-0000000"
OLLAMA = "http://10.0.0.7:11434"
ALL = SetupAnswers(
    ModelChoice("anthropic:claude", KEY), BotChoice("@claw_bot", TOKEN), AdminAnswer("telegram:5", "Ann")
)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder that does not exist yet, and no variable that sets anything."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state"


def load(state: Path, config: Path | None = None, **environ: str) -> Loaded:
    return load_config(
        config,
        environ={"GOCLAW_STATE_DIR": str(state), **environ},
        container_secrets=state / "none",
        may_be_missing=True,
    )


def written(answers: SetupAnswers, state: Path, config: Path | None = None) -> SetupReport:
    before = load(state, config)
    return write_answers(answers, SetupPaths.of(before, config), before)


def modes(folder: Path) -> Mapping[str, int]:
    found = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in found}


def test_everything_is_written_private_and_is_in_force(state: Path) -> None:
    old = os.umask(0)
    try:
        report = written(ALL, state)
    finally:
        os.umask(old)
    assert modes(state) == {
        ".": 0o700,
        "config.yaml": 0o600,
        "secrets": 0o700,
        "secrets/anthropic_api_key": 0o600,
        "secrets/telegram_token": 0o600,
        "users.json": 0o600,
    }
    after = load(state)
    assert after.config.models.agent == ("anthropic:claude",) and after.warnings == ()
    key, token = after.config.providers["anthropic"].api_key, after.config.telegram.token
    assert key and key.get_secret_value() == KEY and token and token.get_secret_value() == TOKEN
    (owner,) = Users.read(state / "users.json").all()
    assert owner == User("telegram:5", "Ann", frozenset({"admin"}))
    assert report.left == [] and len(report.written) == 4
    assert list(caveats(ALL, SetupPaths.of(after, None), after)) == []


def test_the_file_holds_what_was_answered_and_where_the_rest_is_explained(state: Path) -> None:
    written(replace(ALL, ollama=OLLAMA), state)
    assert (state / "config.yaml").read_text() == (
        "# GoClaw's configuration. Every other key and its default: `goclaw config example`, docs/configuration.md.\n"
        f'models:\n  agent: ["anthropic:claude"]\nproviders:\n  ollama:\n    base_url: "{OLLAMA}"\n'
    )
    after = load(state)
    assert after.config.providers["ollama"].base_url == OLLAMA and after.warnings == ()
    assert list(caveats(replace(ALL, ollama=OLLAMA), SetupPaths.of(after, None), after)) == []


def test_an_ollama_elsewhere_is_kept_although_no_model_was_named(state: Path) -> None:
    assert written(SetupAnswers(ollama=OLLAMA), state).written == ["state/config.yaml"]
    assert load(state).config.providers["ollama"].base_url == OLLAMA


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("http: {port: 1}\n", ["Add to it:", "providers:", "  ollama:", f'    base_url: "{OLLAMA}"']),
        (
            "providers:\n  groq: {}\n",
            ["Below `providers:` (state/config.yaml:1:1)", "  ollama:", f'    base_url: "{OLLAMA}"'],
        ),
        (
            "providers:\n  ollama:\n    max_context: 8192\n",
            ["Below `providers.ollama:` (state/config.yaml:2:3)", f'    base_url: "{OLLAMA}"'],
        ),
        (f"providers:\n  ollama:\n    base_url: {OLLAMA}\n", []),
    ],
)
def test_an_existing_configuration_is_told_where_ollama_is(state: Path, text: str, told: list[str]) -> None:
    state.mkdir()
    (state / "config.yaml").write_text(text)
    left = written(SetupAnswers(ollama=OLLAMA), state).left
    assert len(left) == len(told) and all(words in line for words, line in zip(told, left, strict=True))
    if told:
        (state / "config.yaml").write_text(text + "".join(f"{line}\n" for line in left[1:]))
    assert load(state).config.providers["ollama"].base_url == OLLAMA


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (("telegram", "token"), "telegram_token"),
        (("providers", "openai-chat", "api_key"), "openai_api_key"),
        (("providers", "z-ai", "api_key"), "providers__z_ai__api_key"),
    ],
)
def test_a_secret_has_the_name_that_the_configuration_reads(state: Path, path: tuple[str, ...], name: str) -> None:
    assert secret_name(path) == name
    (state / "secrets").mkdir(parents=True)
    (state / "secrets" / name).write_text("a-secret")
    assert load(state).origin(path) == f"state/secrets/{name}"


def test_only_what_was_answered_is_written(state: Path) -> None:
    written(SetupAnswers(bot=BotChoice("@claw_bot", TOKEN)), state)
    assert set(modes(state)) == {".", "secrets", "secrets/telegram_token"}
    assert written(SetupAnswers(), state).written == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ["Add to it:", "models:", '  agent: ["anthropic:claude"]']),
        ("http: {port: 1}\n", ["Add to it:", "models:", '  agent: ["anthropic:claude"]']),
        ("models:\n  summary: []\n", ["Below `models:` (state/config.yaml:1:1) add:", '  agent: ["anthropic:claude"]']),
        ("models:\n", ["Below `models:` (state/config.yaml:1:1) add:", '  agent: ["anthropic:claude"]']),
        (
            "models:\n  agent: demo\n",
            ["config.yaml:2:3 already has another model", '  agent: ["anthropic:claude"]'],
        ),
        ("models:\n  agent: [anthropic:claude]\n", []),
    ],
)
def test_a_configuration_that_exists_is_left_to_the_byte_and_the_missing_lines_are_said(
    state: Path, text: str, told: list[str]
) -> None:
    state.mkdir()
    (state / "config.yaml").write_text(text)
    report = written(ALL, state)
    assert (state / "config.yaml").read_text() == text
    assert "state/config.yaml" not in report.written
    assert len(report.left) == len(told)
    assert all(words in line for words, line in zip(told, report.left, strict=True))


def test_the_lines_that_are_said_do_what_they_promise(state: Path) -> None:
    state.mkdir()
    for text in ("http: {port: 1}\n", "models:\n", "models:\n  summary: []\n"):
        (state / "config.yaml").write_text(text)
        _, *lines = additions(ALL, load(state), SetupPaths.of(load(state), None))
        (state / "config.yaml").write_text(text + "".join(f"{line}\n" for line in lines))
        assert load(state).config.models.agent == ("anthropic:claude",)


def test_secrets_and_people_that_exist_are_left_as_they_are(state: Path) -> None:
    (state / "secrets").mkdir(parents=True)
    (state / "secrets" / "telegram_token").write_text("another-token\n")
    (state / "secrets" / "anthropic_api_key").write_text(KEY)
    (state / "users.json").write_text('{"users": {"telegram:5": {"roles": ["user"]}}}')
    report = written(ALL, state)
    assert (state / "secrets" / "telegram_token").read_text() == "another-token\n"
    assert json.loads((state / "users.json").read_text()) == {"users": {"telegram:5": {"roles": ["user"]}}}
    assert report.written == ["state/config.yaml"]
    token, person = report.left
    assert "`rm state/secrets/telegram_token`" in token and '"roles": ["admin"]' in person


@pytest.mark.promise("P-setup-harmless")
def test_what_cannot_be_written_leaves_nothing_behind(state: Path) -> None:
    (state.parent / "users").write_text("a file where a folder should be")
    before = load(state, GOCLAW_USERS_FILE=str(state.parent / "users" / "users.json"))
    with pytest.raises((ConfigError, StateError)):
        write_answers(ALL, SetupPaths.of(before, None), before)
    assert not state.exists()


def test_a_file_that_appears_meanwhile_is_not_replaced(state: Path) -> None:
    state.mkdir()
    (state / "second").write_text("old")
    with pytest.raises(StateError, match="second: cannot be written: already exists; nothing was changed"):
        with new_files({state / "new" / "first": "1", state / "second": "2"}):
            raise AssertionError("the block is not reached")
    assert [path.name for path in state.rglob("*")] == ["second"] and (state / "second").read_text() == "old"


def test_ctrl_c_in_the_middle_leaves_nothing_behind(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(setup, "put_users", interrupted)
    with pytest.raises(KeyboardInterrupt), interruptible():
        written(ALL, state)
    assert not state.exists()


def test_a_place_that_cannot_be_written_to_is_known_before_the_first_question(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    before = load(tmp_path / "file" / "state")
    with pytest.raises(StateError, match="not writable"):
        check_places(SetupPaths.of(before, None), before)
    inside = tmp_path / "state" / "workspace" / "config.yaml"
    with pytest.raises(ConfigError, match="inside the workspace"):
        check_places(SetupPaths.of(load(tmp_path / "state"), inside), load(tmp_path / "state"))


def test_what_goes_before_the_files_is_said(state: Path) -> None:
    written(ALL, state)
    variables = {"ANTHROPIC_API_KEY": "k-old", "TELEGRAM_BOT_TOKEN": "t-old", "GOCLAW_MODELS__AGENT": "demo"}
    off = {"GOCLAW_TELEGRAM__ENABLED": "false", "GOCLAW_USERS_FILE": str(state / "nobody.json")}
    after = load(state, None, **variables, **off)
    told = list(caveats(ALL, SetupPaths.of(after, None), after))
    assert len(told) == 5
    for words in (*(f"env {name}" for name in variables), "telegram.enabled is false", "the bot answers nobody"):
        assert any(words in line for line in told), words


def test_a_key_that_only_this_shell_has_is_said_to_be_missing_for_a_service_and_where_to_keep_it(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = {"ANTHROPIC_API_KEY": "k-shell", "GROQ_API_KEY": "g-shell", "TELEGRAM_BOT_TOKEN": "1:t-shell"}
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    after = load(state, None, **shell)
    place = SetupPaths.of(after, None)
    keep = "a service does not have {} of this shell: put its value into state/secrets/{}"
    token = keep.format("TELEGRAM_BOT_TOKEN", "telegram_token")
    anthropic = keep.format("ANTHROPIC_API_KEY", "anthropic_api_key")
    groq = keep.format("GROQ_API_KEY", "providers__groq__api_key")
    assert list(caveats(SetupAnswers(), place, after)) == [anthropic, token], "GoClaw would choose by that key"
    assert list(caveats(SetupAnswers(ModelChoice("groq:qwen")), place, after)) == [groq, token]
    assert list(caveats(SetupAnswers(ModelChoice("vllm:qwen")), place, after)) == [token]
    (state / "secrets").mkdir(parents=True)
    (state / "secrets" / "providers__groq__api_key").write_text("g-shell")
    assert list(caveats(SetupAnswers(ModelChoice("groq:qwen")), place, load(state, None, **shell))) == [token]


def test_a_server_at_another_address_is_written_as_by_hand(state: Path) -> None:
    written(SetupAnswers(ModelChoice("local:qwen3", KEY, base_url="http://box:9000/v1")), state)
    assert (state / "config.yaml").read_text().splitlines()[1:] == [
        *("models:", '  agent: ["local:qwen3"]'),
        *("providers:", "  local:", '    base_url: "http://box:9000/v1"'),
    ]
    local = load(state).config.providers["local"]
    assert local.api_key and local.api_key.get_secret_value() == KEY and load(state).warnings == ()


def test_a_secret_may_come_through_a_pipe_and_is_refused_when_it_is_none(tmp_path: Path) -> None:
    source, end = os.pipe()
    os.write(end, b"  a-secret\n")
    os.close(end)
    assert read_secret(Path(f"/dev/fd/{source}")) == "a-secret"
    os.close(source)
    for text in ("", "two words", "líne"):
        (tmp_path / "key").write_text(text)
        with pytest.raises(ConfigError, match="should be one word") as caught:
            read_secret(tmp_path / "key")
        assert not text or text not in str(caught.value)
    with pytest.raises(ConfigError, match="nowhere: cannot be read"):
        read_secret(tmp_path / "nowhere")

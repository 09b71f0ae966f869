"""What `webhooks` and `notify` refuse, and what they change for the listener."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from goclaw.common.auth.config_lint import warnings
from goclaw.common.auth.users import User
from goclaw.common.config.listening import hosts, listens
from goclaw.common.config.load import load_config, secret_values
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Address
from goclaw.errors import ConfigError

SECRET = "s" * 32
SOUND = {"secret": SECRET, "user": "telegram:5", "task": "Read this."}


def load(folder: Path, hook: dict[str, Any], **more: Any) -> Config:
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump({"state_dir": str(folder / "state"), "webhooks": {"ci": hook}, **more}))
    return load_config(file, environ={}, container_secrets=folder / "none").config


def problems(folder: Path, hook: dict[str, Any], **more: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        load(folder, hook, **more)
    return str(refused.value)


def test_a_webhook_opens_the_listener_and_is_its_credential(tmp_path: Path) -> None:
    config = load(tmp_path, SOUND, http={"host": "192.0.2.1", "hosts": ["claw.example.org"]})
    assert listens(config) and hosts(config) == {"claw.example.org"}
    assert "webhooks" in problems(tmp_path, SOUND, http={"enabled": False})


def test_its_secret_is_known_as_one_and_never_in_a_message(tmp_path: Path) -> None:
    config = load(tmp_path, SOUND, notify={"ops": {"url": "https://hooks.example.org/token-in-the-path"}})
    assert {SECRET, "https://hooks.example.org/token-in-the-path"} <= set(secret_values(config))
    assert SECRET not in str(config) and "token-in-the-path" not in str(config)
    assert "too-short" not in problems(tmp_path, SOUND | {"secret": "too-short"})


def test_a_secret_comes_from_a_file_of_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "secrets"
    folder.mkdir(parents=True)
    (folder / "webhooks__ci__secret").write_text(SECRET)
    hook = {name: value for name, value in SOUND.items() if name != "secret"}
    assert load(tmp_path, hook).webhooks["ci"].secret.get_secret_value() == SECRET


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"secret": "short"}, "webhooks.ci.secret: should have at least 16 characters"),
        ({"hmac": "gitlab"}, "webhooks.ci.hmac: should be one of github, stripe"),
        ({"user": "ann"}, "webhooks.ci.user: should be a key of users.json"),
        ({"to": "ann"}, "webhooks.ci.to: should be `telegram:<chat id>`"),
        ({"to": "notify:ops"}, "webhooks.ci.to: unknown target `ops` (notify)"),
        ({"message": "Hello"}, "webhooks.ci: should have either `message` or `task`"),
        ({"task": None}, "webhooks.ci: should have either `message` or `task`"),
        ({"task": None, "message": "Hello", "budget": 1}, "webhooks.ci.budget: is only for a task"),
        ({"id_header": "Authorization"}, "webhooks.ci.id_header: should not be a header that carries a secret"),
        ({"headers": "Cookie"}, "should not be a header that carries a secret"),
        ({"task": "x" * 5_000}, "webhooks.ci.task: should be a text of at most 4,000 characters"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_place(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    assert said in problems(tmp_path, SOUND | change)


def test_a_name_is_one_part_of_a_path(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump({"webhooks": {"a/../b": SOUND}}))
    with pytest.raises(ConfigError, match="should be a short name such as `github`"):
        load_config(file, environ={})


def test_no_person_answers_a_question_at_a_url(tmp_path: Path) -> None:
    targets = {"ops": {"url": "https://hooks.example.org"}}
    said = problems(tmp_path, SOUND | {"to": "notify:ops", "ask": True}, notify=targets)
    assert "webhooks.ci.ask: needs a chat where a person answers" in said


@pytest.mark.parametrize("url", ["ftp://example.org", "https://ann:pass@example.org/", "https://", "example.org"])
def test_a_target_is_a_plain_url(tmp_path: Path, url: str) -> None:
    assert "notify.ops.url: should be a URL" in problems(tmp_path, SOUND, notify={"ops": {"url": url}})


def test_alerts_name_targets_that_exist(tmp_path: Path) -> None:
    assert "alerts.notify[0]: unknown target `ops`" in problems(tmp_path, SOUND, alerts={"notify": "ops"})


@pytest.mark.parametrize(
    ("change", "address"),
    [
        ({}, Address("telegram", "5")),
        ({"to": "telegram:-100:7"}, Address("telegram", "-100", "7")),
        ({"user": "tui:ann"}, Address("tui", "ann")),
    ],
)
def test_results_go_to_the_user_unless_a_chat_is_named(
    tmp_path: Path, change: dict[str, Any], address: Address
) -> None:
    assert load(tmp_path, SOUND | change).webhooks["ci"].address == address


def test_an_unknown_user_is_named_by_the_check(tmp_path: Path) -> None:
    config = load(tmp_path, SOUND)
    assert any("webhooks.ci.user: telegram:5 is not in" in line for line in warnings(config, (), {}, ()))
    assert list(warnings(config, [User("telegram:5")], {}, ())) == []

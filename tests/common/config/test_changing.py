"""Changing one key of the configuration file: comments and everything else stay, or nothing is changed."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from goclaw.common.config.changing import CHANGEABLE, change, check, set_key, with_value
from goclaw.common.config.document import HIDDEN, example, format_value, plain_value
from goclaw.common.config.load import load_config
from goclaw.common.config.schema import Config
from goclaw.errors import ToolError

KEY = "memory.max_results"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "memory:\n  max_results: 9\n"),
        ("# only a comment\n", "# only a comment\nmemory:\n  max_results: 9\n"),
        ("memory:\n  max_results: 6  # why\n", "memory:\n  max_results: 9  # why\n"),
        ("memory:\n  # few\n  enabled: true\n", "memory:\n  # few\n  max_results: 9\n  enabled: true\n"),
        ("log_level: DEBUG\n", "memory:\n  max_results: 9\nlog_level: DEBUG\n"),
        ("memory:\nlog_level: DEBUG\n", "memory:\n  max_results: 9\nlog_level: DEBUG\n"),
        ("memory:\n  max_results:\n", "memory:\n  max_results: 9\n"),
        ("log_level: DEBUG", "memory:\n  max_results: 9\nlog_level: DEBUG"),
    ],
)
def test_only_the_one_key_is_written(before: str, after: str) -> None:
    assert with_value(before, KEY, 9) == after
    assert yaml.safe_load(after)["memory"]["max_results"] == 9


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("memory: {max_results: 6}  # why\n", "memory: {max_results: 9}  # why\n"),
        ("memory: {enabled: true, max_results: 6}\n", "memory: {enabled: true, max_results: 9}\n"),
        ("memory: {enabled: true}\n", 'memory: {"max_results": 9, enabled: true}\n'),
        ("memory: {}\n", 'memory: {"max_results": 9}\n'),
        ("memory: null  # none\n", 'memory: {"max_results": 9}  # none\n'),
        ("{memory: , log_level: DEBUG}\n", '{memory: {"max_results": 9} , log_level: DEBUG}\n'),
        ("{memory, log_level: DEBUG}\n", '{memory: {"max_results": 9}, log_level: DEBUG}\n'),
        ("{memory: {max_results: }}\n", "{memory: {max_results: 9 }}\n"),
        ("{}", '{"memory": {"max_results": 9}}'),
        (
            "{ # mine\n  log_level: DEBUG, # all\n}\n",
            '{ # mine\n  "memory": {"max_results": 9},\n  log_level: DEBUG, # all\n}\n',
        ),
    ],
)
def test_a_file_in_flow_form_keeps_it(before: str, after: str) -> None:
    assert with_value(before, KEY, 9) == after
    assert yaml.safe_load(after)["memory"]["max_results"] == 9


@pytest.mark.parametrize("indent", [None, 2, 4])
@pytest.mark.parametrize("memory", [{"max_results": 6, "enabled": True}, {"enabled": True}, {}, None])
def test_a_file_of_json_stays_json(tmp_path: Path, indent: int | None, memory: Any) -> None:
    before = {"telegram": {"token": "123:abc"}, "memory": memory, "models": {"agent": ["demo"]}}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(before, indent=indent))
    change(file, KEY, 9)
    set_key(file, "models.agent", ("demo", "scripted:x"))
    set_key(file, "roles.child", {"tools": ("read",), "guard": "off"})
    models, roles = {"agent": ["demo", "scripted:x"]}, {"child": {"tools": ["read"], "guard": "off"}}
    expected = {**before, "memory": {**(memory or {}), "max_results": 9}, "models": models, "roles": roles}
    assert json.loads(file.read_text()) == expected
    assert not indent or '"telegram": {\n' in file.read_text()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("models:\n  agent: a:b  # why\n", 'models:\n  agent: ["x:y"]  # why\n'),
        ("models:\n  agent: [a:b]\n", 'models:\n  agent: ["x:y"]\n'),
        ("models:\n  agent:\n  - a:b  # small\n\n# end\n", 'models:\n  agent:\n  - "x:y"  # small\n\n# end\n'),
        ("models:\n  agent:\n  - a:b\n  - c:d\n# end\nhttp: {}\n", 'models:\n  agent:\n  - "x:y"\n# end\nhttp: {}\n'),
    ],
)
def test_a_list_is_changed_item_by_item_or_replaced_without_what_stands_below(before: str, after: str) -> None:
    assert with_value(before, "models.agent", ("x:y",)) == after
    assert yaml.safe_load(after)["models"]["agent"] == ["x:y"]


def test_every_changeable_key_is_set_in_the_example_with_all_its_comments(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "checkpoint.every_turns": 3,
        "log_level": "DEBUG",
        "media.text_characters": 5,
        KEY: 9,
        "queue.mode": "steer",
        "telegram.artifacts": "none",
    }
    assert set(values) == set(CHANGEABLE)
    file = tmp_path / "config.yaml"
    file.write_text(example())
    for key, value in values.items():
        assert change(file, key, value) == "config.yaml"
        assert plain_value(load_config(file).config, key) == value
    lines = file.read_text().splitlines()
    assert [line for line in example().splitlines() if line.lstrip().startswith("#") and line not in lines] == []


def test_the_other_lines_of_a_file_from_windows_stay_byte_by_byte(tmp_path: Path) -> None:
    file, before = tmp_path / "config.yaml", b"# mine\r\nmemory:\r\n  max_results: 6\r\nlog_level: INFO\r\n"
    file.write_bytes(before)
    kept = set_key(file, KEY, 9)
    assert kept and kept.read_bytes() == before
    assert file.read_bytes() == before.replace(b"6", b"9")


def test_a_file_that_is_missing_is_made_and_one_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    change(file, KEY, 9)
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    change(file, KEY, 8)
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml"]


@pytest.mark.parametrize(
    ("before", "key", "value", "said"),
    [
        ("", KEY, 0, "max_results"),
        ("", KEY, "many", "max_results"),
        ("", KEY, True, "true or false"),
        ("", "log_level", "LOUD", "log_level"),
        ("", "policy.mode", "bypass", "cannot be changed here"),
        ("", "models.agent", "x", "cannot be changed here"),
        ("", "../x", 1, "cannot be changed here"),
        ("memory: [max_results]\n", KEY, 9, "by hand"),
        ("{memory: 6}\n", KEY, 9, "by hand"),
        ("memory: [\n", KEY, 9, "cannot be read"),
        ("- a\n", KEY, 9, "by hand"),
        ("memory:\n  max_result: 1\n", KEY, 9, "max_result"),
        ("checkpoint: &x\n  every_turns: 3\n", KEY, 1e400, "max_results"),
    ],
)
def test_what_cannot_be_changed_leaves_the_file_as_it_was(
    tmp_path: Path, before: str, key: str, value: Any, said: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(before)
    for attempt in (check, change):
        with pytest.raises(ToolError, match=said):
            attempt(file, key, value)
    assert file.read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_to_look_whether_a_key_can_be_changed_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    check(file, KEY, 9)
    assert list(tmp_path.iterdir()) == []
    file.write_text("memory:\n  max_results: 6\n")
    check(file, KEY, 9)
    assert file.read_text() == "memory:\n  max_results: 6\n"


def test_a_key_that_the_environment_sets_is_not_changed_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOCLAW_MEMORY__MAX_RESULTS", "7")
    with pytest.raises(ToolError, match=r"set elsewhere \(env GOCLAW_MEMORY__MAX_RESULTS\)"):
        change(tmp_path / "config.yaml", KEY, 9)
    assert list(tmp_path.iterdir()) == []


def test_no_secret_is_ever_shown() -> None:
    config = Config.model_validate(
        {
            "telegram": {"token": "123:telegram-secret-abc"},
            "providers": {"anthropic": {"api_key": "sk-ant-api03-hidden", "max_context": 4_096}},
            "tools": {"exec": {"env": {"MY_TOKEN": "env-secret", "LANG": "C"}}},
            "channels": {"pigeon": {"pass": "feather"}},
        }
    )
    for section in Config.model_fields:
        text = format_value(config, section)
        for secret in ("telegram-secret-abc", "sk-ant-api03-hidden", "env-secret", "feather"):
            assert secret not in text
    assert format_value(config, "telegram.token") == f"telegram.token: {HIDDEN}"
    assert format_value(config, "providers.anthropic.max_context") == "providers.anthropic.max_context: 4096"
    assert format_value(config, "tools.exec.env").splitlines() == [
        f"tools.exec.env.MY_TOKEN: {HIDDEN}",
        'tools.exec.env.LANG: "C"',
    ]
    assert HIDDEN in format_value(config, "channels.pigeon.pass")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("memroy", "did you mean memory"),
        ("memory.max_result", "did you mean max_results"),
        ("", "no key"),
        ("memory.max_results.x", "no key"),
        ("__class__", "no key"),
        ("memory.model_fields", "no key"),
        ("x" * 9_999, "no key"),
    ],
)
def test_a_key_that_is_none_is_said_to_be_none(key: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        format_value(Config(), key)

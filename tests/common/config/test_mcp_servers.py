"""`mcp.servers`: one way to each server, names that make tools' names, secrets that are never shown."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.document import effective
from goclaw.common.config.load import load_config
from goclaw.common.config.mcp import McpClientSettings
from goclaw.common.core.redact import mask
from goclaw.errors import ConfigError


def refusal(tmp_path: Path, text: str) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path)})
    return str(caught.value)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("{}", "either `command` or `url`"),
        ("{command: npx, url: 'http://h/mcp'}", "either `command` or `url`"),
        ("{url: 'http://h/mcp', env: {A: b}}", "are for a `command`"),
        ("{command: npx, headers: {A: b}}", "are for a `url`"),
        ("{command: npx -y server}", "`command: npx` and put the rest in `args`"),
        ("{command: ./server}", "an absolute path"),
        ("{command: npx, env: {'A B': c}}", "names of letters, digits"),
        ('{command: npx, env: {A: "b\\nc"}}', "one line"),
        ("{url: 'http://h/mcp', headers: {Mcp-Session-Id: x}}", "the protocol sets it"),
        ("{command: npx, allow: ['a b']}", "names of the server's tools"),
        ("{command: npx, timout: 3}", "did you mean `timeout`?"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(tmp_path: Path, server: str, words: str) -> None:
    said = refusal(tmp_path, f"mcp: {{servers: {{files: {server}}}}}")
    assert words in said and "mcp.servers.files" in said


@pytest.mark.parametrize("name", ["Files", "a__b", "a_", "-a", "x" * 25, "a.b", "а"])  # a Cyrillic letter
def test_a_servers_name_leaves_no_doubt_whose_tool_it_is(tmp_path: Path, name: str) -> None:
    assert "should be a short name" in refusal(tmp_path, f"mcp: {{servers: {{{name}: {{command: npx}}}}}}")


def test_secrets_of_servers_are_neither_shown_nor_repeated(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "mcp: {servers: {\n"
        "a: {command: npx, env: {SOME_TOKEN: pa55word-of-a, HOME_OF_IT: /usr/share/a, KIND: production}},\n"
        "b: {url: 'http://h/mcp', headers: {Authorization: 'Bearer pa55word-of-b'}}}}\n"
    )
    file.chmod(0o600)
    loaded = load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path)})
    shown = effective(loaded.config, loaded.origin)
    assert "pa55word" not in shown and "/usr/share/a" not in shown and "pa55word" not in repr(loaded.config)
    assert mask("it is pa55word-of-a, or pa55word-of-b") == "it is [secret], or [secret]"
    assert mask("/usr/share/a in production") == "/usr/share/a in production"
    assert loaded.config.mcp.servers["a"].variables()["SOME_TOKEN"] == "pa55word-of-a"


def test_what_is_pinned_is_free_form() -> None:
    given: dict[str, Any] = {"command": "npx", "tools": {"a": {"input_schema": {"type": "object", "x": [1]}}}}
    pinned = McpClientSettings.model_validate(given).tools["a"]
    assert pinned.input_schema == {"type": "object", "x": [1]} and pinned.description is None

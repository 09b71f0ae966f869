"""`tools.from_registry` beside the rest of the configuration: names, registries, secrets."""

from pathlib import Path

import pytest

from goclaw.common.config.document import effective
from goclaw.common.config.load import load_config
from goclaw.common.config.schema import Config
from goclaw.common.core.redact import mask
from goclaw.errors import ConfigError

REGISTRY = "registries: {corp: {url: 'https://registry.example.org'}}\n"
LINE = "{registry: corp, toolset: data-tools}"


def refusal(folder: Path, text: str) -> str:
    file = folder / "config.yaml"
    file.write_text(REGISTRY + text)
    with pytest.raises(ConfigError) as caught:
        load_config(file, environ={"GOCLAW_STATE_DIR": str(folder)})
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("data", "mcp: {servers: {data: {command: npx}}}", "`data` is already a server of `mcp.servers`"),
        ("data", "tools.sets: {data: [read]}", "`data` is already a set of `tools.sets`"),
        ("memory", "", "`memory` is already a built-in set of tools"),
        (
            "plans",
            "agents: {main: {exports: {plans: {include: [read]}}}}",
            "`plans` is already a set that an agent exports",
        ),
    ],
)
def test_a_name_means_one_thing(name: str, more: str, words: str, tmp_path: Path) -> None:
    sets = "sets: {data: [read]}, " if more.startswith("tools.sets") else ""
    rest = "" if sets else more
    said = refusal(tmp_path, f"tools: {{{sets}from_registry: {{{name}: {LINE}}}}}\n{rest}\n")
    assert f"tools.from_registry.{name}: {words}" in said and "choose another name" in said


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{registry: crop, toolset: x}", "data.registry: unknown registry `crop`; did you mean `corp`?"),
        ("{registry: elsewhere, toolset: x}", "data.registry: unknown registry `elsewhere`; known are: corp"),
        (f"{{registry: corp, toolset: x, sha256: {'a' * 64}}}", "data.sha256: is the hash of one version"),
        ("{registry: corp, toolset: x, sha256: abc}", "should be 64 hexadecimal digits"),
        ("{registry: corp}", "data.toolset: is missing"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(line: str, words: str, tmp_path: Path) -> None:
    said = refusal(tmp_path, f"tools: {{from_registry: {{data: {line}}}}}")
    assert words in said and ":2:" in said


def test_its_tools_are_a_set_and_its_server_one_of_ours() -> None:
    line = {"registry": "corp", "toolset": "x", "roles": ["staff"]}
    config = Config.model_validate(
        {"tools": {"from_registry": {"data": line}}, "mcp": {"servers": {"a": {"command": "x"}}}}
    )
    assert config.toolsets == {"data": ("tag:mcp-data",)}
    assert {name: place for name, (place, _) in config.mcp_servers.items()} == {
        "data": "tools.from_registry.data",
        "a": "mcp.servers.a",
    }


def test_its_secrets_are_neither_shown_nor_repeated(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "registries: {corp: {url: 'https://registry.example.org', auth: pa55word-of-corp}}\n"
        "tools: {from_registry: {data: {registry: corp, toolset: x, env: {A_TOKEN: pa55word-of-env},"
        " headers: {Authorization: 'Bearer pa55word-of-data'}}}}\n"
    )
    file.chmod(0o600)
    loaded = load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path)})
    assert "pa55word" not in effective(loaded.config, loaded.origin) + repr(loaded.config)
    said = "it is pa55word-of-corp, pa55word-of-env or pa55word-of-data"
    assert mask(said) == "it is [secret], [secret] or [secret]"
    assert loaded.config.tools.from_registry["data"].variables() == {"A_TOKEN": "pa55word-of-env"}

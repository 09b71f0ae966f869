"""The texts made from the schema are complete, load, and are the ones in the repository."""

import re
from pathlib import Path

from goclaw.common.auth.users import Users
from goclaw.common.config.document import HIDDEN, effective, example, markdown
from goclaw.common.config.keys import keys
from goclaw.common.config.load import load_config
from goclaw.common.config.locate import parse_yaml
from goclaw.common.config.schema import Config

ROOT = Path(__file__).parents[3]


def test_the_page_in_the_repository_is_current() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == markdown(), (
        "run `goclaw config schema --markdown` into it"
    )


def test_the_short_example_loads_as_it_is_and_with_every_value_set(tmp_path: Path) -> None:
    text = (ROOT / "config.yaml.example").read_text()
    assert 30 <= len(re.findall(r"^ *#[a-z_]+: \S", text, re.MULTILINE)) <= 45
    environ, file = {"GOCLAW_STATE_DIR": str(tmp_path / "state")}, tmp_path / "config.yaml"
    file.write_text(text)
    assert load_config(file, environ=environ).config == Config(state_dir=tmp_path / "state")
    file.write_text(re.sub(r"^( *)#(?! )", r"\1", text, flags=re.MULTILINE).replace("#  ", "  "))
    config = load_config(file, environ=environ).config
    assert set(config.mcp.servers) == {"files"} and config.roles["child"].daily_cost == 0.5
    assert config.tools.network.allow == ("wiki.home.lan",) and config.retention.days == 365


def test_the_example_has_every_key_and_loads_as_it_is_and_with_every_value_set(tmp_path: Path) -> None:
    text = example()
    for key in keys(Config):
        assert re.search(rf"^ *#?{key.path[-1]}:", text, re.MULTILINE), key.dotted
    environ = {"GOCLAW_STATE_DIR": str(tmp_path / "state")}
    file = tmp_path / "config.yaml"
    file.write_text(text)
    as_it_is = load_config(file, environ=environ).config
    assert as_it_is == Config(state_dir=tmp_path / "state")
    file.write_text(re.sub(r"^( *)#(?! )", r"\1", text, flags=re.MULTILINE))
    loaded = load_config(file, environ=environ)
    by_name = {"providers": {}, "roles": {}, "hooks": (), "models": as_it_is.models, "tools": as_it_is.tools}
    by_name["agents"] = as_it_is.agents
    by_name |= {"mcp": as_it_is.mcp, "registries": {}, "schedules": {}, "webhooks": {}, "notify": {}}
    assert set(loaded.config.mcp.servers) == {"files"}
    assert loaded.config.model_copy(update=by_name) == as_it_is
    named = {"cli": {}, "from_registry": {}, "pinned": {}, "publish": {}, "ssh": as_it_is.tools.ssh}
    assert loaded.config.tools.model_copy(update=named) == as_it_is.tools
    assert set(loaded.config.tools.cli) == {"lint"} and set(loaded.config.tools.ssh.hosts) == {"web1"}
    assert set(loaded.config.registries) == {"corp"} and set(loaded.config.tools.from_registry) == {"data"}
    agents = loaded.config.agents
    main = agents.main.model_copy(update={"exports": {}})
    assert agents.model_copy(update={"kinds": {}, "routes": (), "main": main}) == as_it_is.agents
    assert set(agents.main.exports) == {"planning"} and [route.agent for route in agents.routes] == ["main"]
    assert set(loaded.config.agents.kinds) == {"researcher"}
    assert set(loaded.config.providers) == {"anthropic"}
    assert set(loaded.config.models.options) == {"ollama:qwen2.5:7b"}
    assert set(loaded.config.roles) == {"guest"} and set(loaded.config.schedules) == {"standup"}
    assert loaded.origin(("http", "port")).startswith(f"{file}:")


def test_every_key_is_described(tmp_path: Path) -> None:
    page = markdown()
    for key in keys(Config):
        assert key.field.description, key.dotted
        if not key.is_section:
            assert f"`{key.dotted.replace('*', '<name>')}`" in page


def test_the_example_of_users_json_loads() -> None:
    users = Users.read(ROOT / "users.json.example").all()
    assert len(users) >= 2


def test_the_configuration_in_force_is_yaml_again_without_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "telegram: {token: '123:hidden-token-value', proxy: 'http://me:hidden-password@host:1'}\n"
        "providers: {openai-chat: {api_key: hidden-key-value}}\nmodels: {agent: [demo]}\n"
    )
    loaded = load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path / "state")})
    text = effective(loaded.config, loaded.origin)
    assert "hidden" not in text
    assert text.count(HIDDEN) == 2
    assert f'agent: ["demo"]  # {file}:3:10' in text
    parsed = parse_yaml(text)
    assert parsed.problems == []
    assert parsed.value["models"]["agent"] == ["demo"]

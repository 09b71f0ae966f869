"""What a configuration may say, and what is said of one that cannot be used."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from goclaw.common.config.load import Loaded, load_config
from goclaw.common.config.values import contexts_of
from goclaw.common.core.redact import mask
from goclaw.errors import ConfigError
from tests.tables import table

CANARY = "canary-5ecret-value-never-shown"

Load = Callable[..., Loaded]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads `text` as the file, with the given variables and nothing else of this machine."""

    def run(text: str | bytes | None = None, env: dict[str, str] | None = None, **overrides: object) -> Loaded:
        state = tmp_path / "state"
        state.mkdir(mode=0o700, exist_ok=True)
        if text is not None:
            content = text if isinstance(text, bytes) else text.encode()
            (state / "config.yaml").write_bytes(content)
        environ = {"GOCLAW_STATE_DIR": str(state), **(env or {})}
        return load_config(environ=environ, overrides=overrides, container_secrets=tmp_path / "run-secrets")

    return run


def problems(load: Load, text: str | bytes | None = None, env: dict[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(text, env)
    return caught.value.problems


BROKEN_FILES = [
    # text, position, what the message must hold
    ("workspace: $HOME/work\n", "1:1", ["workspace", "contains $HOME", "does not expand", "`~/`"]),
    ("users_file: ${CONFIG}/users.json\n", "1:1", ["users_file", "contains ${CONFIG}", "`~/`"]),
    ("plugins: [/srv/$TEAM/x.py]\n", "1:11", ["plugins", "contains $TEAM", "`~/`"]),
    ("telegram:\n  tokne: x\n", "2:3", ["telegram.tokne", "unknown key", "`token`"]),
    ("tools:\n  bash: {compress_output: true}\n", "2:3", ["tools.bash", "unknown key; did you mean `tools.exec`?"]),
    ("tools:\n  Grep: {threads: 3}\n", "2:3", ["tools.Grep", "did you mean `tools.search`?"]),
    (
        "tools:\n  enabled: {clarify_disabled: true}\n",
        "2:3",
        ["tools.enabled", "unknown key; ", "`tools.disabled`", "`[ask_user]` for `clarify_disabled`"],
    ),
    ("telegarm: {}\n", "1:1", ["telegarm", "unknown key", "`telegram`"]),
    ("telegram:\n  baseUrl: http://x\n", "2:3", ["telegram.baseUrl", "`base_url`"]),
    ("token: x\n", "1:1", ["token", "`telegram.token`"]),
    ("http:\n  prt: 1\n", "2:3", ["http.prt", "`port`"]),
    ("http:\n  xyzzy: 1\n", "2:3", ["http.xyzzy", "known here: enabled, api, clients, metrics, port", "openai"]),
    ("http:\n  port: 70000\n", "2:3", ["http.port", "at most 65535", "70000"]),
    ("http:\n  port: -1\n", "2:3", ["http.port", "at least 0"]),
    ("http:\n  port: eighty\n", "2:3", ["http.port", "whole number"]),
    ("http:\n  port: 80.5\n", "2:3", ["http.port", "whole number"]),
    ("http:\n  port: true\n", "2:3", ["http.port", "should be a number"]),
    ("http:\n  port: [80]\n", "2:3", ["http.port", "whole number", "a list"]),
    ("http:\n  host: 8\n", "2:3", ["http.host", "should be text", "quotes"]),
    ("http: 8080\n", "1:1", ["http", "mapping"]),
    ("http: [a]\n", "1:1", ["http", "mapping", "a list"]),
    ("telegram:\n  enabled: maybe\n", "2:3", ["telegram.enabled", "true or false"]),
    ("telegram:\n  enabled: true\n", "2:3", ["telegram.enabled", "telegram.token", "@BotFather"]),
    ("telegram:\n  token: 123456\n", "2:3", ["telegram.token", "text", "quotes"]),
    ("telegram:\n  token: 'a b'\n", "2:3", ["telegram.token", "without spaces"]),
    ("telegram:\n  token: ''\n", "2:3", ["telegram.token", "one word"]),
    ("telegram:\n  base_url: api.telegram.org\n", "2:3", ["telegram.base_url", "http://host:port"]),
    ("telegram:\n  base_url: http://h:99999\n", "2:3", ["telegram.base_url", "http://host:port"]),
    ("telegram:\n  proxy: socks5://h:1\n", "2:3", ["telegram.proxy", "http://host:port"]),
    ("telegram:\n  groups: [-5, x]\n", "2:16", ["telegram.groups[1]", "whole number"]),
    ("telegram:\n  groups:\n    - 123\n", "3:7", ["telegram.groups[0]", "negative"]),
    ("telegram:\n  groups:\n    -100: {contxt: 5}\n", "3:12", ["telegram.groups.-100.contxt", "`context`"]),
    ("telegram:\n  groups:\n    -100: {context: 500}\n", "3:12", ["telegram.groups.-100.context", "at most 100"]),
    ("telegram:\n  groups:\n    100: {}\n", "3:5", ["telegram.groups.100", "negative"]),
    ("telegram:\n  ack_reaction: 🦀\n", "2:3", ["telegram.ack_reaction", "does not accept 🦀", "for example, 👍"]),
    ("telegram:\n  groups: 7\n", "2:3", ["telegram.groups", "list"]),
    ("telegram:\n  poll_seconds: 51\n", "2:3", ["telegram.poll_seconds", "at most 50"]),
    ("models:\n  agent: 5\n", "2:3", ["models.agent", "list", "a number"]),
    ("models:\n  agent: [demo, 5]\n", "2:17", ["models.agent[1]", "text"]),
    ("models:\n  summary: 5\n", "2:3", ["models.summary", "`auto`", "provider:name"]),
    ("models:\n  options:\n    demo:\n      thinking: hihg\n", "4:7", ["thinking", "off, low, medium, high", "`high`"]),
    ("models:\n  options:\n    demo:\n      windw: 5\n", "4:7", ["models.options.demo.windw", "unknown key"]),
    ("models:\n  options:\n    demo: 5\n", "3:5", ["models.options.demo", "mapping"]),
    ("providers:\n  openai:\n    key: x\n", "3:5", ["providers.openai.key", "unknown key", "`api_key`"]),
    ("providers: []\n", "1:1", ["providers", "mapping"]),
    ("providers:\n  openai:\n    defer_tools: true\n", "1:1", ["openai.defer_tools", "only `anthropic`"]),
    ("tools:\n  exec:\n    sandbox: of\n", "3:5", ["tools.exec.sandbox", "`off`"]),
    ("tools:\n  exec:\n    timeout: 0\n", "3:5", ["tools.exec.timeout", "more than 0"]),
    ("tools:\n  exec:\n    timeout: .inf\n", "3:5", ["tools.exec.timeout", "number"]),
    ("tools:\n  exec:\n    timeout: '1e999'\n", "3:5", ["tools.exec.timeout", "number"]),
    ("policy:\n  mode: bypass\n", "2:3", ["policy.mode", "policy.allow_bypass"]),
    ("policy:\n  mode: plam\n", "2:3", ["policy.mode", "`plan`"]),
    ("policy:\n  stricter: {low: run}\n", "2:14", ["policy.stricter.low", "ask, refuse"]),
    ("policy:\n  stricter: {hgh: ask}\n", "2:14", ["policy.stricter.hgh", "`high`"]),
    ("log_level: loud\n", "1:1", ["log_level", "DEBUG, INFO, WARNING, ERROR"]),
    ("workspace: 5\n", "1:1", ["workspace", "path"]),
    ("workspace: .\n", "1:1", ["workspace", "state folder must not be inside"]),
    ("compaction:\n  keep_percent: 91\n", "2:3", ["compaction.keep_percent", "at most 90"]),
    ("http:\n  port: 1\nhttp:\n  port: 2\n", "3:1", ["http", "duplicate key", "1:1"]),
    ("http:\n  port: 1\n  port: 2\n", "3:3", ["http.port", "duplicate key", "2:3"]),
    ("http:\n\tport: 1\n", "2:1", ["spaces instead of tabs"]),
    ("http: {port: 1\n", "2:1", ["not YAML"]),
    ("telegram:\n  token: a: b\n", "2:11", ["second `:`", "quotes"]),
    ("http:\n   port: 1\n  host: x\n", "3:3", ["not YAML", "indentation"]),
    ("- telegram\n", "1:1", ["mapping", "a list"]),
    ("just text\n", "1:1", ["mapping", "text"]),
    ("42\n", "1:1", ["mapping", "a number"]),
    ("a: &x 1\nb: *x\n", "2:4", ["aliases"]),
    ("a: !!python/object:os.system x\n", "1:4", ["tags"]),
    ("a: !!int x\n", "1:4", ["tags"]),
    ('models:\n  agent: !!python/object/apply:os.system ["id"]\n', "2:10", ["models.agent", "tags"]),
    ("http: !!python/object:os.path {port: 1}\n", "1:7", ["http", "tags"]),
    ("http: {a: [!!python/tuple [1]]}\n", "1:12", ["tags"]),
    ("!!python/name:os.system : 1\n", "1:1", ["tags"]),
    ("!!python/dict\nhttp: {port: 1}\n", "1:1", ["tags"]),
    ("? [a]\n: 1\n", "1:3", ["key should be text"]),
    ("log_level: INFO\n---\nlog_level: INFO\n", "2:1", ["second document"]),
    ("a: " + "[" * 200 + "]" * 200 + "\n", "1:53", ["nested deeper"]),
    ("a: \x01\n", "1:1", ["control characters"]),
    (b"a: \xff\xfe\n", "1:4", ["UTF-8"]),
]


@pytest.mark.promise("P-config-errors")
@table("text, position, words", BROKEN_FILES)
def test_a_broken_file_is_refused_with_position_key_and_remedy(
    load: Load, text: str | bytes, position: str, words: list[str]
) -> None:
    found = problems(load, text)
    line = next((line for line in found if f"config.yaml:{position}: " in line), "")
    assert line, found
    assert [word for word in words if word not in line] == []
    assert "\n" not in "".join(found)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x7fELF\x00\x00\x01", ["not a text file"]),
        (b"#" * 1_000_001, ["larger than 1,000,000 bytes"]),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_by_name(load: Load, content: bytes, words: list[str]) -> None:
    (line,) = problems(load, content)
    assert "config.yaml: " in line
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "loop", "unreadable"])
def test_a_named_file_that_cannot_be_read_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "my.yaml"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path)
        case "unreadable":
            path.write_text("")
            path.chmod(0)
            if os.access(path, os.R_OK):
                pytest.skip("root reads everything")
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ={})
    assert caught.value.problems[0].startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"GOCLAW_HTTP__PORT": "eighty"}, ["env GOCLAW_HTTP__PORT: http.port: ", "whole number"]),
        ({"GOCLAW_HTTP__PROT": "1"}, ["env GOCLAW_HTTP__PROT: ", "`GOCLAW_HTTP__PORT`"]),
        ({"GOCLAW_TELEGRAM_TOKEN": CANARY}, ["env GOCLAW_TELEGRAM_TOKEN: ", "`GOCLAW_TELEGRAM__TOKEN`"]),
        ({"GOCLAW_WORKSPCE": "/x"}, ["env GOCLAW_WORKSPCE: ", "`GOCLAW_WORKSPACE`"]),
        ({"GOCLAW_QQQQQQQQ": "/x"}, ["env GOCLAW_QQQQQQQQ: ", "goclaw config schema"]),
        ({"GOCLAW_HTTP__PORT__X": "1"}, ["env GOCLAW_HTTP__PORT__X: ", "unknown key"]),
        ({"GOCLAW_HTTP": "8080"}, ["env GOCLAW_HTTP: http: ", "mapping"]),
        ({"GOCLAW_HTTP": "port: 1"}, ["env GOCLAW_HTTP: http: ", "JSON"]),
        ({"GOCLAW_HTTP": '{"prt": 1}'}, ["env GOCLAW_HTTP: http.prt: ", "`port`"]),
        ({"GOCLAW_MODELS__AGENT": '["demo"'}, ["env GOCLAW_MODELS__AGENT: models.agent: ", "JSON list"]),
        ({"GOCLAW_TELEGRAM__GROUPS": "-1,x"}, ["env GOCLAW_TELEGRAM__GROUPS: telegram.groups[1]: ", "whole number"]),
        ({"GOCLAW_TELEGRAM__ENABLED": "perhaps"}, ["env GOCLAW_TELEGRAM__ENABLED: ", "true or false"]),
        ({"GOCLAW_POLICY__MODE": "bypas"}, ["env GOCLAW_POLICY__MODE: policy.mode: ", "`bypass`"]),
        ({"LOG_LEVEL": "loud"}, ["env LOG_LEVEL: log_level: ", "INFO"]),
        ({"OLLAMA_HOST": "ftp://x"}, ["env OLLAMA_HOST: providers.ollama.base_url: ", "http://host:port"]),
        ({"TELEGRAM_BOT_TOKEN": f"{CANARY} x"}, ["env TELEGRAM_BOT_TOKEN: telegram.token: ", "spaces"]),
    ],
)
def test_a_broken_variable_is_refused_by_its_name(load: Load, variables: dict[str, str], words: list[str]) -> None:
    (line,) = problems(load, None, variables)
    assert [word for word in words if word not in line] == []


@pytest.mark.promise("P-secrets-masked")
@pytest.mark.parametrize(
    "text",
    [
        f"telegram:\n  token: [{CANARY}]\n",
        f"telegram:\n  tokne: {CANARY}\n",
        f"telegram: {CANARY}\n",
        f"{CANARY}\n",
        f"telegram:\n  token: {CANARY}: x\n",
        f"telegram:\n  token: '{CANARY}\n",
        f"http:\n  port: {CANARY}\n",
        f"telegram:\n  proxy: socks5://me:{CANARY}@host\n",
        f"policy:\n  mode: {CANARY}\n",
        f"telegram:\n  token: !x {CANARY}\n",
        f"providers:\n  x:\n    api_key: ['{CANARY}']\n",
        f"log_level: 5\ntelegram:\n  token: {CANARY}\n",
    ],
)
def test_no_message_repeats_what_may_be_a_secret(load: Load, text: str) -> None:
    assert CANARY not in "\n".join(problems(load, text))


def test_every_problem_is_listed_at_once(load: Load) -> None:
    found = problems(load, "htp: {}\nmemory: 5\nlog_level: x\n", {"GOCLAW_HTTP__PORT": "x"})
    assert len(found) == 4


def test_without_any_file_the_defaults_hold(load: Load, tmp_path: Path) -> None:
    loaded = load()
    assert loaded.path is None
    assert loaded.config.http.port == 8137
    assert loaded.config.state_dir == tmp_path / "state"
    assert loaded.config.workspace_path == tmp_path / "state" / "workspace"
    assert loaded.warnings == ()


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n", "telegram:\nhttp:\n", "{}\n", "\ufeffhttp: {}\n"])
def test_an_empty_file_or_section_means_the_defaults(load: Load, text: str) -> None:
    assert load(text).config == load("log_level: INFO").config


def test_later_sources_win_key_by_key(load: Load, tmp_path: Path) -> None:
    secrets = tmp_path / "state" / "secrets"
    secrets.mkdir(parents=True)
    (secrets / "http__host").write_text("secret.example\n")
    (secrets / "limits__tool_calls").write_text("2")
    http = "http: {enabled: false, host: file.example, port: 1}\n"
    text = f"{http}limits: {{tool_calls: 1, failed_calls: 1, repeated_calls: 1}}\n"
    env = {"GOCLAW_LIMITS__TOOL_CALLS": "3", "GOCLAW_LIMITS__FAILED_CALLS": "3"}
    loaded = load(text, env, **{"limits.failed_calls": "4"})
    assert (loaded.config.http.host, loaded.config.http.port) == ("secret.example", 1)
    limits = loaded.config.limits
    assert (limits.repeated_calls, limits.tool_calls, limits.failed_calls) == (1, 3, 4)
    assert loaded.origin(("limits", "failed_calls")) == "command line"
    assert loaded.origin(("limits", "tool_calls")) == "env GOCLAW_LIMITS__TOOL_CALLS"
    assert loaded.origin(("limits", "repeated_calls")).endswith("config.yaml:2:42")
    assert loaded.origin(("limits", "turn_seconds")) == "default"


def test_common_variables_fill_their_keys(load: Load) -> None:
    config = load(
        env={
            "ANTHROPIC_API_KEY": "anthropic-key",
            "OPENAI_API_KEY": "openai-key",
            "OLLAMA_HOST": "gpu.example",
            "TELEGRAM_BOT_TOKEN": "123:abc",
            "LOG_LEVEL": "debug",
        }
    ).config
    keys = {
        name: settings.api_key.get_secret_value() for name, settings in config.providers.items() if settings.api_key
    }
    assert keys == {"anthropic": "anthropic-key", "openai-chat": "openai-key"}
    assert config.providers["ollama"].base_url == "http://gpu.example:11434"
    assert config.telegram.token
    assert config.telegram.token.get_secret_value() == "123:abc"
    assert config.log_level == "DEBUG"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1:9", "http://127.0.0.1:9"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:9", "http://[::1]:9"),
        ("https://x/", "https://x"),
    ],
)
def test_an_ollama_host_may_be_a_host_with_or_without_port_or_a_url(load: Load, host: str, url: str) -> None:
    assert load(env={"OLLAMA_HOST": host}).config.providers["ollama"].base_url == url


def test_groups_may_be_a_mapping_also_in_a_variable(load: Load) -> None:
    groups = load(env={"GOCLAW_TELEGRAM__GROUPS": '{"-100": {"context": 3}, "-200": {}}'}).config.telegram.groups
    assert contexts_of(groups) == {-100: 3, -200: 0} and contexts_of((-1,)) == {-1: 0}


def test_our_own_variables_go_before_common_ones(load: Load) -> None:
    loaded = load(env={"TELEGRAM_BOT_TOKEN": "common-token", "GOCLAW_TELEGRAM__TOKEN": "our-own-token"})
    assert loaded.config.telegram.token
    assert loaded.config.telegram.token.get_secret_value() == "our-own-token"


def test_lists_and_mappings_come_from_variables_as_json_or_with_commas(load: Load) -> None:
    config = load(
        env={
            "GOCLAW_MODELS__AGENT": "demo, ollama:qwen2.5:7b",
            "GOCLAW_MODELS__SUMMARY": '["demo"]',
            "GOCLAW_TELEGRAM__GROUPS": "[-100, -200]",
            "GOCLAW_MODELS__OPTIONS": json.dumps({"ollama:qwen2.5:7b": {"thinking": "low"}}),
            "GOCLAW_TOOLS__EXEC__ENV__PATH_EXTRA": '{"kept": "as text"}',
            "GOCLAW_PROVIDERS__OPENAI_CHAT__BASE_URL": "http://localhost:1/v1",
        }
    ).config
    assert config.models.agent == ("demo", "ollama:qwen2.5:7b")
    assert config.models.summary == ("demo",)
    assert config.telegram.groups == (-100, -200)
    assert config.models.options["ollama:qwen2.5:7b"].thinking == "low"
    assert config.tools.exec.env == {"PATH_EXTRA": '{"kept": "as text"}'}
    assert config.providers["openai-chat"].base_url == "http://localhost:1/v1"


def test_names_that_look_like_switches_stay_names(load: Load) -> None:
    config = load("tools: {exec: {sandbox: off}}\ntelegram: {enabled: off}\nmodels: {agent: demo}\n").config
    assert config.tools.exec.sandbox == "off"
    assert config.telegram.enabled is False
    assert config.models.agent == ("demo",)


def test_empty_variables_and_those_of_service_links_are_ignored(load: Load) -> None:
    env = {"TELEGRAM_BOT_TOKEN": "", "GOCLAW_HTTP__PORT": " ", "GOCLAW_PORT": "tcp://x", "GOCLAW_SERVICE_HOST": "x"}
    assert load(env=env).config == load().config


def test_relative_folders_in_a_file_count_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "etc" / "my.yaml"
    file.parent.mkdir()
    file.write_text("state_dir: ../var\nworkspace: ../work\nusers_file: people.json\n")
    config = load_config(file, environ={}).config
    assert config.state_dir.resolve() == tmp_path / "var"
    assert config.workspace_path.resolve() == tmp_path / "work"
    assert config.users_path == tmp_path / "etc" / "people.json"


def test_goclaw_config_names_the_file_and_the_command_line_goes_before_it(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("http: {port: 1}")
    second.write_text("http: {port: 2}")
    environ = {"GOCLAW_CONFIG": str(first), "GOCLAW_STATE_DIR": str(tmp_path / "state")}
    assert load_config(environ=environ).config.http.port == 1
    assert load_config(second, environ=environ).config.http.port == 2


def test_an_empty_device_is_an_empty_file() -> None:
    assert load_config(Path("/dev/null"), environ={}).config.http.port == 8137


def test_secrets_come_from_short_and_nested_file_names(load: Load, tmp_path: Path) -> None:
    ours, container = tmp_path / "state" / "secrets", tmp_path / "run-secrets"
    ours.mkdir(parents=True)
    container.mkdir()
    (ours / "telegram_token").write_text("123:from-file\n")
    (ours / "providers__groq__api_key").write_text("groq-key-0123456789")
    (container / "anthropic_api_key").write_text("anthropic-from-container")
    (container / "some_other_service").write_text("x")
    loaded = load()
    assert loaded.config.telegram.token
    assert loaded.config.telegram.token.get_secret_value() == "123:from-file"
    assert loaded.config.providers["groq"].api_key
    assert loaded.config.providers["anthropic"].api_key
    assert "groq-key" not in repr(loaded)
    assert mask("key groq-key-0123456789") == "key [secret]"
    assert not [line for line in loaded.warnings if "some_other_service" in line]


def test_doubtful_secret_files_are_warned_about(load: Load, tmp_path: Path) -> None:
    secrets = tmp_path / "state" / "secrets"
    secrets.mkdir(parents=True)
    (secrets / "telegram_tokn").write_text("x")
    (secrets / "openai_api_key").write_text("")
    token = secrets / "telegram_token"
    token.write_text("123:abc")
    token.chmod(0o644)
    warnings = "\n".join(load().warnings)
    assert "telegram_tokn: no such key; did you mean `telegram_token`?" in warnings
    assert "openai_api_key: is empty" in warnings
    assert "telegram_token: others can read it (mode 644); run `chmod 600" in warnings


def test_a_binary_secret_is_refused_without_its_content(load: Load, tmp_path: Path) -> None:
    secrets = tmp_path / "state" / "secrets"
    secrets.mkdir(parents=True)
    (secrets / "telegram_token").write_bytes(CANARY.encode() + b"\0")
    (line,) = problems(load)
    assert "secrets/telegram_token: not a text file" in line
    assert CANARY not in line


@pytest.mark.parametrize(
    ("text", "mode", "warned"),
    [
        ("telegram: {token: '123:abc'}", 0o644, "others can read the secrets in it (mode 644)"),
        ("telegram: {token: '123:abc'}", 0o600, ""),
        ("http: {port: 1}", 0o644, ""),
        ("http: {port: 1}", 0o622, "others can change it (mode 622)"),
    ],
)
def test_a_file_that_others_can_read_or_change_is_warned_about(
    tmp_path: Path, text: str, mode: int, warned: str
) -> None:
    tmp_path.chmod(0o755)
    file = tmp_path / "my.yaml"
    file.write_text(text)
    file.chmod(mode)
    warnings = load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path / "state")}).warnings
    assert warned in "".join(warnings)
    assert bool(warnings) == bool(warned)


def test_a_private_folder_protects_the_file_in_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    file = tmp_path / "my.yaml"
    file.write_text("telegram: {token: '123:abc'}")
    file.chmod(0o666)
    assert load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path / "state")}).warnings == ()


def test_overrides_name_unknown_keys(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"command line: http\.prt: unknown key; did you mean `port`"):
        load(**{"http.prt": "1"})
    with pytest.raises(ConfigError, match=r"tools\.bash\.compress_output: unknown key; did you mean `tools\.exec`"):
        load(**{"tools.bash.compress_output": "true"})
    with pytest.raises(ConfigError, match=r"tools\.enabled\.clarify_disabled: unknown key; `tools\.disabled` turns"):
        load(**{"tools.enabled.clarify_disabled": "true"})


def test_numbers_with_underscores_and_quotes_are_numbers(load: Load) -> None:
    config = load("http: {port: '8_138'}\ncompaction: {reserve_tokens: 30_000}\n").config
    assert (config.http.port, config.compaction.reserve_tokens) == (8138, 30_000)


@pytest.mark.parametrize("spec", ["nonsense", ":model", "anthropic:"])
def test_a_model_without_provider_or_name_is_refused_at_its_place(tmp_path: Path, spec: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f'models:\n  agent: ["{spec}"]\n')
    with pytest.raises(ConfigError, match=r"config\.yaml:2:11: models\.agent\[0\]: should be `provider:name`"):
        load_config(file, environ={"GOCLAW_STATE_DIR": str(tmp_path / "state")})


def test_a_named_file_that_is_about_to_be_made_may_be_missing(tmp_path: Path) -> None:
    environ = {"GOCLAW_STATE_DIR": str(tmp_path / "state")}
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "config.yaml").write_text("http: {port: 1}\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "new.yaml", environ=environ)
    loaded = load_config(tmp_path / "new.yaml", environ=environ, may_be_missing=True)
    assert loaded.path is None and loaded.config.http.port == 8137, "another file does not take its place"


def test_what_nobody_has_set_does_not_count_as_set(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("registry_server: {port: 8139}\n")
    environ = {"GOCLAW_STATE_DIR": str(tmp_path)}
    assert load_config(file, environ=environ).config.model_fields_set >= {"registry_server"}
    assert "http" not in load_config(file, environ=environ).config.model_fields_set

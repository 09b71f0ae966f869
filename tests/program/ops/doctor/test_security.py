"""What is weak is named with what helps, in the same words by `goclaw doctor` and by `goclaw config check`."""

import json
import os
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from goclaw.common.auth.tokens import add_token, revoke_token
from goclaw.common.auth.users import Users
from goclaw.common.config.load import Loaded, load_config
from goclaw.program.cli.program import run
from goclaw.program.ops.doctor.base import Finding
from goclaw.program.ops.doctor.security import check_security, weak_spots
from tests.tables import table

TOKEN = "123456:" + "A" * 35
_FROM = (
    "registries: {{r: {{url: 'https://r.example'}}}}\ntools: {{from_registry: {{d: {{registry: r, toolset: d, {}}}}}}}"
)
SETTINGS = {
    "tools.exec.sandbox is off": "tools: {exec: {sandbox: off}}",
    "documents.unsandboxed is true": "documents: {unsandboxed: true}",
    "hooks[0].sandbox is false: guard.py runs with": "hooks: [{on: pre_tool, command: guard.py, sandbox: false}]",
    "workspace/guard.py, which is inside the workspace": "hooks: [{on: pre_tool, command: python3 ./guard.py}]",
    "tools.exec.network is host": "tools: {exec: {network: host}}",
    "tools.exec.env sets PATH": "tools: {exec: {env: {PATH: /srv/bin}}}",
    "tools.exec.env sets MY_API_KEY": "tools: {exec: {env: {MY_API_KEY: x}}}",
    "policy.mode is bypass": "policy: {mode: bypass, allow_bypass: true}",
    "policy.allow_bypass is true": "policy: {allow_bypass: true}",
    "policy.auto_allow lets these calls run": "policy: {auto_allow: [message]}",
    "audit.enabled is false": "audit: {enabled: false}",
    "log_level is DEBUG": "log_level: debug",
    "http.host is 0.0.0.0": "http: {host: 0.0.0.0, enabled: false}",
    "telegram.token does not look like": "telegram: {token: abc}",
    "telegram.base_url is not encrypted": "telegram: {base_url: 'http://bots.example:81'}",
    "providers.openai-chat.base_url is not encrypted": "providers: {openai-chat: {base_url: 'http://ai.example'}}",
    "mcp.servers.x.url is not encrypted": "mcp: {servers: {x: {url: 'http://mcp.example/mcp'}}}",
    "mcp.servers.x.sampling.ask is false": "mcp: {servers: {x: {command: x, sampling: {ask: false}}}}",
    "mcp.servers.x.args seems to contain a secret": (
        "mcp: {servers: {x: {command: x, args: ['--api-key=secret-word']}}}"
    ),
    "registries.x.url is not encrypted": "registries: {x: {url: 'http://registry.example'}}",
    "tools.from_registry.d.packages is true without a version": _FROM.format("packages: true"),
    "tools.from_registry.d.headers are sent to any address": _FROM.format("headers: {Authorization: x}"),
    "registry_server.host is 0.0.0.0": "registry_server: {host: 0.0.0.0}",
    "registry_server.open is true": "registry_server: {host: 0.0.0.0, open: true}",
    "mcp.server.host is 0.0.0.0": "mcp: {server: {enabled: true, host: 0.0.0.0}}",
    "mcp.server.elicitation is true": "mcp: {server: {elicitation: true}}",
    "telegram.proxy contains a password in config.yaml": "telegram: {proxy: 'http://me:secret-word@127.0.0.1:1'}",
    "admitted by pairing may use every tool": "pairing: {enabled: true, role: user}",
    "lists no Telegram user": f"telegram: {{token: '{TOKEN}'}}",
    "telegram.webhook.url is not https": (
        f"telegram: {{token: '{TOKEN}', mode: webhook, base_url: 'http://127.0.0.1:81', "
        "webhook: {url: 'http://claw.example/t'}}"
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a private, empty state folder, of somebody who is not root."""
    monkeypatch.setattr("goclaw.program.ops.doctor.security.is_root", lambda: False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("GOCLAW_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path


def loaded(folder: Path, text: str = "", users: Mapping[str, object] | None = None) -> Loaded:
    config = folder / "state" / "config.yaml"
    config.write_text(text + "\n")
    config.chmod(0o600)
    if users:
        (folder / "state" / "users.json").write_text(json.dumps({"users": users}))
    return load_config(environ={"GOCLAW_STATE_DIR": str(folder / "state")})


def spots(found: Loaded) -> list[Finding]:
    return list(weak_spots(found, Users.read(found.config.users_path).all()))


def only(found: Loaded) -> Finding:
    (spot,) = spots(found)
    return spot


@table("words", SETTINGS, ids=SETTINGS)
def test_a_weak_setting_is_named_with_what_helps(folder: Path, words: str) -> None:
    named = [spot for spot in spots(loaded(folder, SETTINGS[words])) if words in spot.text]
    assert len(named) == 1 and named[0].check == "security" and len(named[0].remedy) > 10
    assert "secret-word" not in str(named)


async def test_the_defaults_are_not_weak(folder: Path) -> None:
    assert [finding.line() for finding in await check_security(loaded(folder))] == ["✓ security: no weaknesses found"]


def test_the_local_servers_of_a_person_are_not_weak(folder: Path) -> None:
    assert spots(loaded(folder, "providers: {ollama: {base_url: 'http://127.0.0.2:11434'}}")) == []


def test_a_password_that_comes_from_a_secrets_file_is_not_weak(folder: Path) -> None:
    secrets = folder / "state" / "secrets"
    secrets.mkdir(mode=0o700)
    (secrets / "telegram__proxy").write_text("http://me:secret-word@127.0.0.1:1")
    (secrets / "telegram__proxy").chmod(0o600)
    assert spots(loaded(folder)) == []


def test_people_with_every_tool_and_one_workspace_are_named(folder: Path) -> None:
    some = {"allowedTools": ["read"]}
    found = loaded(folder, users={"telegram:1": some, "telegram:2": some | {"workspace": "two"}, "telegram:3": some})
    assert "telegram:1, telegram:3 share the workspace" in only(found).text
    assert "telegram:1 has no allowedTools" in only(loaded(folder, users={"telegram:1": {}})).text
    limited = "roles: {guest: {tools: [read]}}"
    assert spots(loaded(folder, limited, {"telegram:1": {"roles": ["guest"]}})) == []


def test_an_admin_who_may_speak_in_groups_is_named(folder: Path) -> None:
    text = f"telegram: {{token: '{TOKEN}', groups: [-100]}}"
    admin = {"roles": ["admin"]}
    assert "admins may speak in groups (telegram:1)" in only(loaded(folder, text, users={"telegram:1": admin})).text
    assert spots(loaded(folder, text, users={"telegram:1": admin | {"groups": False}})) == []


def test_tokens_without_an_end_or_a_user_are_named(folder: Path) -> None:
    found = loaded(folder, users={"tui:ann": {"allowedTools": []}})
    add_token(found.config.tokens_path, "laptop", "tui:ann", 0.0, until=1e12)
    assert spots(found) == []
    add_token(found.config.tokens_path, "phone", "tui:ann", 0.0)
    assert "the token phone (tui:ann) never expires" in only(found).text
    revoke_token(found.config.tokens_path, "phone")
    add_token(found.config.tokens_path, "old", "tui:eve", 0.0)
    assert "the token old belongs to tui:eve, who is not in users.json" in only(found).text
    found.config.tokens_path.chmod(0o644)
    assert only(found).verdict == "problem" and "until then no token is valid" in only(found).text


def test_who_was_let_in_by_pairing_with_every_tool_is_named_with_the_remedy(folder: Path) -> None:
    people = {"telegram:7": {"name": "Carl", "roles": ["user"], "groups": False}}
    (named,) = [spot for spot in spots(loaded(folder, users=people)) if "let in by pairing" in spot.text]
    assert "Carl (telegram:7)" in named.text and "`goclaw users set telegram:7 --preset guest`" in named.remedy


def test_presets_are_not_weak(folder: Path) -> None:
    roles = {"adult": "own", "child": "people/telegram.8", "guest": "people/telegram.9"}
    people = {
        f"telegram:{number}": {"roles": [role], "groups": False, "workspace": workspace}
        for number, (role, workspace) in enumerate(roles.items(), 7)
    }
    assert spots(loaded(folder, users=people)) == []


def test_people_who_pair_with_a_limited_role_are_not_weak(folder: Path) -> None:
    assert spots(loaded(folder, "pairing: {enabled: true, allowed_tools: [read]}")) == []
    assert spots(loaded(folder, "pairing: {enabled: true, role: guest}\nroles: {guest: {tools: [read]}}")) == []


@pytest.mark.parametrize(
    ("name", "mode", "words", "verdict"),
    [
        ("state", 0o755, "others can read the state folder", "warning"),
        ("state/users.json", 0o662, "others can change users and their rights", "problem"),
        ("state/workspace", 0o757, "others can replace its contents", "problem"),
        ("state/goclaw.db", 0o644, "others can read conversations", "warning"),
    ],
)
def test_what_others_can_reach_is_named(folder: Path, name: str, mode: int, words: str, verdict: str) -> None:
    found = loaded(folder, users={"telegram:1": {"allowedTools": []}})
    if name == "state/workspace":
        (folder / name).mkdir()
    elif name != "state":
        (folder / "state").chmod(0o711 if name.endswith(".db") else 0o700)
        (folder / name).touch()
    (folder / name).chmod(mode)
    named = [spot for spot in spots(found) if words in spot.text]
    assert [spot.verdict for spot in named] == [verdict]
    assert f"{mode:o}" in named[0].text and "chmod" in named[0].remedy


def test_a_folder_above_that_others_can_change_is_a_problem(folder: Path) -> None:
    found = loaded(folder)
    folder.chmod(0o777)
    assert (only(found).verdict, only(found).remedy) == ("problem", f"`chmod go-w {folder}`")
    folder.chmod(0o1777)
    assert spots(found) == [], "whoever made a file in a sticky folder is the one who can rename it"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_folder_above_of_another_user_is_a_problem(folder: Path) -> None:
    found = loaded(folder)
    os.chown(folder, 12345, -1)
    assert "belongs to another user (uid 12345)" in only(found).text


@pytest.mark.parametrize(
    "name", ["goclaw.db.v2.bak", "config.yaml.bak", "config.yaml~", "users.json.old", ".config.yaml.swp"]
)
def test_an_old_copy_is_named(folder: Path, name: str) -> None:
    (folder / "state" / name).touch()
    (folder / "state" / "notes.bak").touch()
    assert f"state/{name} is an old copy of" in only(loaded(folder)).text


def test_backups_that_others_or_the_agent_can_read_are_named(folder: Path) -> None:
    found, archive = loaded(folder), folder / "goclaw-2026.tar.gz"
    archive.touch(0o600)
    assert spots(found) == []
    archive.chmod(0o644)
    folder.chmod(0o755)
    assert "others can read this backup (mode 644)" in only(found).text
    (folder / "state" / "workspace").mkdir()
    archive.rename(folder / "state" / "workspace" / archive.name)
    assert "the agent can read all conversations in this backup" in only(found).text


def test_a_workspace_that_is_more_than_the_agents_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder / "home" / "ann"))
    (folder / "home" / "ann").mkdir(parents=True)
    for workspace in (folder / "home" / "ann", folder / "home"):
        assert "contains a whole home" in only(loaded(folder, f"workspace: {workspace}")).text
    (folder / "link").symlink_to("home/ann/work")
    (folder / "home" / "ann" / "work").mkdir()
    assert "is a symbolic link" in only(loaded(folder, f"workspace: {folder / 'link'}")).text
    for system in ("/etc", "/usr", "/proc"):
        assert "give the agent a folder of its own" in only(loaded(folder, f"workspace: {system}")).text


def test_a_workspace_of_one_person_is_looked_at_too(folder: Path) -> None:
    user = {"allowedTools": [], "workspace": str(folder / "state" / "logs")}
    spot = only(loaded(folder, users={"telegram:1": user}))
    assert spot.verdict == "problem" and "give the agent its own folder" in spot.text


def test_root_and_plugins_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(folder)
    monkeypatch.setattr("goclaw.program.ops.doctor.security.is_root", lambda: True)
    assert "GoClaw runs as root" in only(found).text
    monkeypatch.setattr("goclaw.program.ops.doctor.security.is_root", lambda: False)
    plugin = EntryPoint("tools.weather", "weather.tool:TOOL", "goclaw.plugins")
    monkeypatch.setattr(
        "goclaw.program.ops.doctor.security.entry_points", lambda group: [plugin] if "plugins" in group else []
    )
    assert "plugins run inside the daemon with all its rights: tools.weather (weather.tool)" in only(found).text


def test_doctor_and_config_check_say_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded(folder, SETTINGS["audit.enabled is false"], {"telegram:1": {}})
    assert run(["config", "check"]) == 0
    said = capsys.readouterr().out
    run(["doctor", "--json"])
    findings = [found for found in json.loads(capsys.readouterr().out) if found["check"] == "security"]
    assert len(findings) == 2
    for finding in findings:
        assert f"  {finding['text']}\n    → {finding['remedy']}\n" in said


async def test_a_broken_users_file_hides_no_other_weakness(folder: Path) -> None:
    found = loaded(folder, SETTINGS["audit.enabled is false"])
    (folder / "state" / "users.json").write_text("{")
    assert [finding.text.split(":")[0] for finding in await check_security(found)] == ["audit.enabled is false"]

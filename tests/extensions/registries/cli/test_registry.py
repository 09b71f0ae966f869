"""`goclaw registry`: what is printed of registries, and what is published from a file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from goclaw.common.auth.audit import read_audit
from goclaw.common.auth.users import login_name
from goclaw.extensions.registries.base import digest
from goclaw.extensions.registries.catalog_store import FILE, CatalogRow, CatalogStore
from goclaw.program.cli import frame
from goclaw.program.cli.program import run
from tests.acceptance.waiting import clock

TABLES: dict[str, Any] = {
    "kind": "toolset",
    "name": "data/tables",
    "version": "1.0.0",
    "description": "Counts\nrows.",
    "tags": ["sql"],
    "tools": [
        {"name": "count", "description": "Of a table.", "input_schema": {"type": "object"}, "read_only": True},
        {"name": "drop", "input_schema": {"type": "object"}, "destructive": True},
    ],
    "remotes": [{"url": "https://tables.example.org/mcp", "headers": ["X-Key"]}],
}
CLOCKWORK: dict[str, Any] = {
    "kind": "mcp-server",
    "name": "io.github.ann/clock",
    "version": "2.0.0",
    "packages": [{"kind": "npm", "identifier": "@ann/clock", "version": "2.0.0", "arguments": ["--utc"]}],
}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder that knows the registry `corp`, whose catalogue was fetched just now."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    settings = {"registries": {"corp": {"url": "http://127.0.0.1:9", "retry": {"max": 0}}}}
    (folder / "config.yaml").write_text(json.dumps(settings))
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    for name in ("GOCLAW_CONFIG", "GOCLAW_TOKEN", "TELEGRAM_BOT_TOKEN", "OLLAMA_HOST", "LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    older = {**TABLES, "version": "0.9.0"}
    listed = [CatalogRow(each, 1_750_000_000.0, via=("there",)) for each in (TABLES, older, CLOCKWORK)]
    CatalogStore(folder / FILE).replace_catalog("corp", listed, clock.now())
    return folder


@pytest.mark.usefixtures("state")
def test_each_name_is_a_line_with_its_newest_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["registry", "list"]) == 0
    output = capsys.readouterr()
    assert output.out == (
        "corp  mcp-server  io.github.ann/clock 2.0.0\ncorp  toolset  data/tables 1.0.0  Counts rows.\n"
    )
    assert output.err == ""
    assert run(["registry", "list", "corp", "--kind", "toolset", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert (found["registry"], found["name"], found["versions"]) == ("corp", "data/tables", ["1.0.0", "0.9.0"])
    assert found["sha256"] == digest(TABLES) and found["tools"] == ["count", "drop"]
    assert run(["registry", "list", "--own"]) == 0 and capsys.readouterr().out == ""
    assert run(["registry", "list", "corb"]) == 78
    assert "did you mean `corp`?" in capsys.readouterr().err


@pytest.mark.usefixtures("state")
def test_all_words_are_looked_for_in_names_descriptions_tags_and_tools(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["ROWS", "sql"], ["of a table"], ["data/"]):
        assert run(["registry", "search", *words]) == 0
        assert capsys.readouterr().out.startswith("corp  toolset  data/tables 1.0.0"), words
    assert run(["registry", "search", "rows", "clock"]) == 1
    assert "no entry matches rows clock" in capsys.readouterr().err


@pytest.mark.usefixtures("state")
def test_all_of_an_entry_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["registry", "show", "data/tables"]) == 0
    shown = re.sub(r"\(2025-..-..\)", "(day)", capsys.readouterr().out)
    assert shown == "\n  ".join(
        [
            "toolset data/tables 1.0.0 of corp",
            "Counts rows.",
            "tags: sql",
            "versions: 1.0.0 (day), 0.9.0 (day)",
            f"sha256: {digest(TABLES)}",
            "came via: there",
            "runs at: https://tables.example.org/mcp (streamable-http, needs the headers X-Key)",
            "tools:",
            "  count  (reads only)  Of a table.",
            "  drop  (destructive)",
            "to use it, in the configuration (docs/registries.md):",
            "  tools: {from_registry: {tables: {registry: corp, toolset: data/tables}}}\n",
        ]
    )
    assert run(["registry", "show", "io.github.ann/clock"]) == 0
    assert "\n  starts with `packages: true`: npx -y @ann/clock@2.0.0 --utc\n" in capsys.readouterr().out
    assert run(["registry", "show", "data/tables", "--version", "0.9.0", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["document"] == {**TABLES, "version": "0.9.0"}
    assert run(["registry", "show", "data/tables", "--version", "3"]) == 1
    assert "available: 1.0.0, 0.9.0" in capsys.readouterr().err
    assert run(["registry", "show", "data-table"]) == 1
    assert "did you mean data/tables?" in capsys.readouterr().err


def test_what_strangers_wrote_stays_on_its_line_and_moves_no_cursor(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = "\x1b]0;title\x07\x1b[2J\u202eharmless\ncorp  toolset  forged 1.0.0"
    tool = {"name": "x", "description": evil, "input_schema": {}}
    entry = {**TABLES, "name": "evil", "description": evil, "tags": [evil], "tools": [tool]}
    entry["remotes"] = [{"url": f"https://x/{evil}", "type": evil, "headers": [evil]}]
    CatalogStore(state / FILE).replace_catalog("corp", [CatalogRow(entry, 1e300, via=(evil,))], clock.now())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for words in (["list"], ["show", "evil"]):
        assert run(["registry", *words]) == 0
        shown = capsys.readouterr().out
        assert "harmless" in shown and not set("\x1b\x07\u202e") & set(shown)
        assert not any(line.strip().startswith("corp  toolset  forged") for line in shown.splitlines())


def test_whose_catalogue_is_not_known_or_old_is_said(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CatalogStore(state / FILE).replace_catalog("corp", [CatalogRow(TABLES, 1.0)], clock.now() - 7_300)
    settings = yaml.safe_load((state / "config.yaml").read_text())
    settings["registries"]["other"] = {"url": "http://127.0.0.1:9"}
    (state / "config.yaml").write_text(json.dumps(settings))
    assert run(["registry", "list"]) == 0
    error = capsys.readouterr().err
    assert "corp was fetched 2 h ago" in error and "other has not been fetched yet; `goclaw registry sync`" in error


@pytest.mark.usefixtures("state")
def test_a_registry_that_does_not_answer_leaves_what_was_fetched(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["registry", "sync"]) == 1
    assert "the registry corp cannot be reached" in capsys.readouterr().err
    assert run(["registry", "sync", "--json"]) == 1
    [result] = json.loads(capsys.readouterr().out)
    assert (result["registry"], result["entries"], "cannot be reached" in result["problem"]) == ("corp", 0, True)
    assert run(["registry", "list"]) == 0 and "data/tables" in capsys.readouterr().out


def test_an_entry_is_published_from_a_file_and_withdrawn(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("entry.yaml").write_text(yaml.safe_dump(TABLES))
    Path("entry.json").write_text(json.dumps(TABLES, indent=2))
    assert run(["registry", "publish", "entry.yaml"]) == 0
    assert capsys.readouterr().out == f"published: toolset data/tables 1.0.0\n  sha256: {digest(TABLES)}\n"
    assert run(["registry", "publish", "entry.json"]) == 0
    assert capsys.readouterr().out.startswith("was already published: ")
    assert run(["registry", "list", "--own"]) == 0
    assert capsys.readouterr().out == "(own)  toolset  data/tables 1.0.0  Counts rows.\n"
    assert run(["registry", "withdraw", "toolset", "data/tables", "1.0.0"]) == 0
    assert run(["registry", "withdraw", "toolset", "data/tables", "1.0.0"]) == 1
    assert "there is no toolset data/tables 1.0.0" in capsys.readouterr().err
    actions = [
        (entry["action"], entry["object"], entry["actor"], entry["result"])
        for entry in read_audit(state / "logs" / "audit.jsonl")
    ]
    me = f"tui:{login_name()}"
    assert actions == [
        ("registry.publish", "toolset data/tables 1.0.0", me, "done"),
        ("registry.publish", "toolset data/tables 1.0.0", me, "nothing to do"),
        ("registry.withdraw", "toolset data/tables 1.0.0", me, "done"),
        ("registry.withdraw", "toolset data/tables 1.0.0", me, "nothing to do"),
    ]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("kind: toolset\nname: x\nversion: 1.0\n", 1, "entry.yaml: version: Input should be a valid string"),
        ("kind: toolset\nkind: agent\n", 78, "entry.yaml:2:1: "),
        ("- a\n", 78, "should be an entry"),
        ("", 78, "should be an entry"),
        ("a: [", 78, "entry.yaml:"),
    ],
)
def test_a_file_that_is_no_entry_is_named_with_what_is_wrong(
    text: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("entry.yaml").write_text(text)
    assert run(["registry", "publish", "entry.yaml"]) == code
    assert words in capsys.readouterr().err
    assert run(["registry", "publish", "nowhere.yaml"]) == 78


@pytest.mark.usefixtures("state")
def test_a_registry_to_publish_to_has_to_be_configured(capsys: pytest.CaptureFixture[str]) -> None:
    Path("entry.json").write_text(json.dumps(TABLES))
    assert run(["registry", "publish", "entry.json", "--to", "nowhere"]) == 78
    assert "there is no registry nowhere" in capsys.readouterr().err
    assert run(["registry", "publish", "entry.json", "--to", "corp"]) == 1
    assert run(["registry", "withdraw", "toolset", "data/tables", "1.0.0", "--from", "corp"]) == 1


def test_looking_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path / "new"))
    assert run(["registry", "list"]) == 0
    assert "no registry is configured" in capsys.readouterr().err and not (tmp_path / "new").exists()
    assert "registry" in frame.COMMANDS

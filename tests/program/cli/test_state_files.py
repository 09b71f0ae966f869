"""`goclaw users|store edit|export|import`: files of the state folder, changed by hand, on both stores."""

import asyncio
import json
import tempfile
from pathlib import Path

import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.open import open_database
from goclaw.durable.store.postgres.documents import writer_of
from goclaw.durable.store.postgres.stored_files import StoredFiles
from goclaw.program.cli.program import run

NOTE = "notes/telegram:5/tea.md"
ANN = {"users": {"telegram:5": {"name": "Ann"}}}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty state folder that the commands use."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    for name in ("GOCLAW_CONFIG", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def on_postgres(state: Path, place: PostgresPlace, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same with `store`."""
    monkeypatch.setenv("GOCLAW_STORE", f"{place.url}?schema={place.schema}")
    stored(place)
    return state


def stored(place: PostgresPlace) -> dict[str, bytes]:
    """The documents of the database."""

    async def read() -> dict[str, bytes]:
        async with open_database(place) as database:
            files = StoredFiles(database)
            return {name: await files.data(name, entry) for name, entry in (await files.all()).items()}

    return asyncio.run(read())


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let the person's editor run a script, whose first argument is the file."""
    path = tmp_path / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(path))


def test_users_json_is_edited_exported_and_imported(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new.json").write_text(json.dumps(ANN))
    assert run(["users", "import", "new.json"]) == 0
    editor(tmp_path, monkeypatch, "sed -i s/Ann/Anna/ $1")
    assert run(["users", "edit"]) == 0
    assert (state / "users.json").stat().st_mode & 0o777 == 0o600
    capsys.readouterr()
    assert run(["users", "export"]) == 0
    assert json.loads(capsys.readouterr().out)["users"]["telegram:5"]["name"] == "Anna"
    assert run(["users", "export", "copy.json"]) == 0
    assert (tmp_path / "copy.json").read_bytes() == (state / "users.json").read_bytes()
    editor(tmp_path, monkeypatch, "true")
    assert run(["users", "edit"]) == 0 and "nothing was changed" in capsys.readouterr().err


def test_what_cannot_be_used_is_not_written_and_the_text_is_kept(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (state / "users.json").write_text(json.dumps(ANN))
    editor(tmp_path, monkeypatch, 'echo \'{"users": {"5": {}}}\' > $1')
    assert run(["users", "edit"]) == 78
    said = capsys.readouterr().err
    kept = Path(said.split("Your text is kept in ")[1].strip())
    assert "did you mean `telegram:5`?" in said and json.loads(kept.read_text()) == {"users": {"5": {}}}
    editor(tmp_path, monkeypatch, f"echo '{{\"users\": {{}}}}' > $1; echo > {state / 'users.json'}")
    assert run(["users", "edit"]) == 78 and "was changed meanwhile; nothing was written" in capsys.readouterr().err
    (tmp_path / "half.json").write_text("{")
    assert run(["store", "import", "mcp-tools.json", "half.json"]) == 78
    assert not (state / "mcp-tools.json").exists()
    assert (state / "users.json").read_text() == "\n"
    for editor_, words in (("/nowhere/vi", "there is no such program"), ('vi "', "is not a valid command")):
        monkeypatch.setenv("EDITOR", editor_)
        assert run(["store", "edit", NOTE]) == 78
        printed = capsys.readouterr().err
        assert "EDITOR" in printed and words in printed


def test_files_that_are_not_changed_by_hand_are_refused(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("config.yaml", "../users.json", "notes/../config.yaml", "secrets/token", "/etc/passwd", "notes//a"):
        assert run(["store", "export", name]) == 78, name
        assert "should be users.json, access-tokens.json" in capsys.readouterr().err
    for command in (["store", "export", NOTE], ["store", "remove", NOTE]):
        assert run(command) == 78
        assert "tea.md: no such file" in capsys.readouterr().err
    assert not (state / NOTE).parent.exists()


def test_an_editor_may_leave_a_backup_or_delete_the_file(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drafts = tmp_path / "drafts"
    drafts.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(drafts))
    editor(tmp_path, monkeypatch, "touch $1~; echo black > $1")
    assert run(["store", "edit", NOTE]) == 0 and (state / NOTE).read_text() == "black\n"
    editor(tmp_path, monkeypatch, "rm $1")
    assert run(["store", "edit", NOTE]) == 0 and "nothing was changed" in capsys.readouterr().err
    assert (state / NOTE).exists() and not list(drafts.iterdir())


def test_tokens_that_nobody_could_use_are_refused(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tokens.json").write_text('{"tokens": {"laptop": {"user": "telegram:5"}}}')
    assert run(["store", "import", "access-tokens.json", "tokens.json"]) == 78
    assert "tokens.laptop.sha256 is broken" in capsys.readouterr().err
    assert not (state / "access-tokens.json").exists()


@pytest.mark.promise("P-store-files")
def test_with_postgres_the_commands_change_the_document(
    on_postgres: Path, place: PostgresPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    with writer_of(place, other)(other / "users.json"):
        (other / "users.json").write_text(json.dumps(ANN))
    assert run(["users", "add", "telegram:6"]) == 0
    editor(tmp_path, monkeypatch, "sed -i s/Ann/Anna/ $1")
    assert run(["users", "edit"]) == 0
    editor(tmp_path, monkeypatch, "echo black > $1")
    assert run(["store", "edit", NOTE]) == 0
    found = stored(place)
    assert found[NOTE] == b"black\n"
    people = json.loads(found["users.json"])["users"]
    assert {key: entry.get("name") for key, entry in people.items()} == {"telegram:5": "Anna", "telegram:6": None}
    assert run(["store", "remove", NOTE]) == 0
    assert list(stored(place)) == ["users.json"]


@pytest.mark.promise("P-store-files")
def test_a_command_shows_what_the_database_has_and_says_so_where_it_cannot_ask(
    on_postgres: Path, place: PostgresPlace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = on_postgres.parent / "other"
    other.mkdir(mode=0o700)
    with writer_of(place, other)(other / "users.json"):
        (other / "users.json").write_text(json.dumps(ANN))
    assert run(["users", "list"]) == 0 and "telegram:5  Ann" in capsys.readouterr().out
    monkeypatch.setenv("GOCLAW_STORE", "postgresql://goclaw@127.0.0.1:9/goclaw")
    assert run(["users", "list"]) == 0
    said = capsys.readouterr()
    assert "telegram:5  Ann" in said.out and "this machine's copy may be old" in said.err
    assert run(["users", "add", "telegram:6"]) == 78 and "cannot be written" in capsys.readouterr().err
    assert "telegram:6" not in (on_postgres / "users.json").read_text()

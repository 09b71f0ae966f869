"""What comes from anybody is refused unless it is exactly what a backup is, and never leaves its folder."""

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from goclaw.errors import StateError
from goclaw.program.ops.backup.archive import MAX_AT_ONCE, SPARE, read_archive
from tests.program.ops.backup.support import archive_of, plain, tree

FINE = [(plain("goclaw.db", b"data"), b"data")]


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """Where archives are unpacked: two folders down, so that what climbs out is seen."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    return folder


def refused(archive: Path, into: Path, words: str) -> None:
    """Reading it fails with these words, with and without unpacking, and nothing lies outside."""
    outside = tree(archive.parent)
    for target in (None, into):
        with pytest.raises(StateError, match=words):
            read_archive(archive, target)
    after = tree(archive.parent)
    assert {name: after[name] for name in after if not name.startswith("a/b/")} == outside


def test_a_whole_archive_is_unpacked_with_rights_and_times(tmp_path: Path, into: Path) -> None:
    info = plain("workspace/run.sh", b"#!/bin/sh")
    info.mode, info.mtime = 0o6755, 1_000_000
    folder = plain("workspace/empty", kind=tarfile.DIRTYPE)
    folder.mode = 0o750
    archive = archive_of(
        tmp_path / "x.gz", [(info, b"#!/bin/sh"), (folder, b"")], {"links": {"workspace/me": "run.sh"}}
    )
    manifest = read_archive(archive, into)
    assert tree(into) == {"workspace/run.sh": b"#!/bin/sh", "workspace/me": "run.sh"}
    found = (into / "workspace" / "run.sh").stat()
    assert (found.st_mode & 0o7777, found.st_mtime) == (0o755, 1_000_000)
    assert (into / "workspace" / "empty").stat().st_mode & 0o777 == 0o750
    assert len(manifest.within("workspace")) == 1


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "workspace/../../evil",
        "/evil",
        "workspace//evil",
        "workspace/./evil",
        "..",
        "workspace/..",
        "a" * 5000,
    ],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, into: Path, name: str) -> None:
    refused(archive_of(tmp_path / "x.gz", [*FINE, (plain(name, b"x"), b"x")]), into, "contains an invalid name")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, b"Z"]
)
def test_what_is_no_plain_file_or_folder_is_refused(tmp_path: Path, into: Path, kind: bytes) -> None:
    odd = plain("workspace/odd", kind=kind, target="/etc/passwd")
    refused(archive_of(tmp_path / "x.gz", [*FINE, (odd, b"")]), into, "neither a file nor a folder")


def test_a_file_is_never_written_through_a_link(tmp_path: Path, into: Path) -> None:
    link = plain("workspace/out", kind=tarfile.SYMTYPE, target=str(tmp_path))
    inside = plain("workspace/out/evil", b"x")
    refused(archive_of(tmp_path / "x.gz", [(link, b""), (inside, b"x")]), into, "neither a file nor a folder")


@pytest.mark.parametrize(
    "links",
    [
        {"../evil": "x"},
        {"/evil": "x"},
        {"workspace/out": "/tmp", "workspace/out/evil": "x"},
        {"goclaw.db": "/etc/passwd"},
        {"goclaw.db/evil": "x"},
        {"workspace/a": ""},
        {"workspace/a": "x\0y"},
    ],
)
def test_links_that_would_lead_out_are_refused(tmp_path: Path, into: Path, links: dict[str, str]) -> None:
    refused(archive_of(tmp_path / "x.gz", FINE, {"links": links}), into, "link")


@pytest.mark.parametrize("names", [("a", "a"), ("a/b", "a/b")])
def test_a_member_that_is_there_twice_is_refused(tmp_path: Path, into: Path, names: tuple[str, str]) -> None:
    members = [(plain(name, b"x"), b"x") for name in names]
    refused(archive_of(tmp_path / "x.gz", members), into, "twice")


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path, into: Path) -> None:
    archive = archive_of(tmp_path / "x.gz", [(plain("a", b"x"), b"x"), (plain("a/b", b"x"), b"x")])
    with pytest.raises(StateError):
        read_archive(archive, into)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"members": {"goclaw.db": {"size": 4, "sha256": "0" * 64}}}, "does not match the manifest"),
        ({"members": {}}, "does not match the manifest"),
        ({"members": {"goclaw.db": {"size": 4, "sha256": 5}}}, "manifest cannot be read"),
        ({"made_at": "long ago"}, "manifest cannot be read"),
        ({"format": 2, "goclaw": "9.9"}, "GoClaw 9.9 made"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    tmp_path: Path, into: Path, manifest: dict[str, Any], words: str
) -> None:
    refused(archive_of(tmp_path / "x.gz", FINE, manifest), into, words)


def test_a_member_that_is_missing_is_named(tmp_path: Path, into: Path) -> None:
    listed = {"goclaw.db": {"size": 0, "sha256": ""}, "users.json": {"size": 0, "sha256": ""}}
    refused(archive_of(tmp_path / "x.gz", [], {"members": listed}), into, "'goclaw.db' is missing")


def test_an_archive_that_is_cut_anywhere_is_refused(tmp_path: Path, into: Path) -> None:
    whole = archive_of(tmp_path / "x.gz", [(plain("goclaw.db", b"x" * 3000), b"x" * 3000)]).read_bytes()
    cut = tmp_path / "cut.gz"
    for length in range(0, len(whole), 7):
        cut.write_bytes(whole[:length])
        with pytest.raises(StateError, match="damaged, or not a GoClaw backup"):
            read_archive(cut)


def test_an_archive_with_a_wrong_byte_anywhere_is_refused_or_the_same(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "x.gz", [(plain("goclaw.db", bytes(range(256)) * 8), bytes(range(256)) * 8)])
    whole, sound = path.read_bytes(), read_archive(path)
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        try:
            assert read_archive(path) == sound
        except StateError:
            pass  # most of them


@pytest.mark.parametrize("content", [b"", b"hello", b"\x1f\x8b", gzip.compress(b"hello" * 5000, mtime=0)])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.gz").write_bytes(content)
    with pytest.raises(StateError, match="damaged, or not a GoClaw backup"):
        read_archive(tmp_path / "x.gz")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"nowhere.*cannot be read"):
        read_archive(tmp_path / "nowhere")


def test_a_header_of_absurd_length_is_refused_unread(tmp_path: Path) -> None:
    """A pax header is read whole by the library, before anybody can look at it."""
    info = plain("x", kind=tarfile.XHDTYPE)
    info.size = 40 * MAX_AT_ONCE
    with gzip.open(tmp_path / "x.gz", "wb") as file:
        file.write(info.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(40):
            file.write(bytes(MAX_AT_ONCE))
    with pytest.raises(StateError, match="far too long"):
        read_archive(tmp_path / "x.gz")


def test_what_does_not_fit_on_the_disk_is_refused_before_it_fills_it(
    tmp_path: Path, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(tmp_path / "x.gz", FINE)
    usage = type("Usage", (), {"free": SPARE})
    monkeypatch.setattr("goclaw.program.ops.backup.archive.shutil.disk_usage", lambda path: usage)
    with pytest.raises(StateError, match="too little space"):
        read_archive(archive, into)
    assert tree(into) == {}


def test_what_follows_behind_the_end_is_refused(tmp_path: Path) -> None:
    whole = gzip.decompress(archive_of(tmp_path / "x.gz", FINE).read_bytes())
    (tmp_path / "x.gz").write_bytes(gzip.compress(whole + bytes(2 * MAX_AT_ONCE)))
    with pytest.raises(StateError, match="follow after its end"):
        read_archive(tmp_path / "x.gz")


def test_a_member_behind_the_manifest_is_refused(tmp_path: Path) -> None:
    content = json.dumps({"made_at": 1.0, "schema": 1, "members": {}}).encode()
    with gzip.open(tmp_path / "x.gz", "wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
        tar.addfile(plain("manifest.json", content), io.BytesIO(content))
        tar.addfile(plain("goclaw.db", b"x"), io.BytesIO(b"x"))
    with pytest.raises(StateError, match="after the manifest"):
        read_archive(tmp_path / "x.gz")

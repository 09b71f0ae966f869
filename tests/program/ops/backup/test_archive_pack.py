"""Files go into an archive as they are while they are read."""

import io
from pathlib import Path

from goclaw.program.ops.backup.archive import SPOOLED, Manifest, pack, read_archive
from tests.program.ops.backup.support import members_of


class Shrinking(io.BytesIO):
    """A file that ends before it should."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(3)


def test_a_file_that_grows_is_cut_at_what_it_was(tmp_path: Path) -> None:
    with pack(tmp_path / "x.gz", Manifest(1.0, 1)) as packer:
        packer.add("log", io.BytesIO(b"what was there and what came"), 0o600, 1.0, most=14)
    assert members_of(tmp_path / "x.gz")["log"] == b"what was there"


def test_a_file_that_shrinks_is_what_was_read(tmp_path: Path) -> None:
    manifest = Manifest(1.0, 1)
    with pack(tmp_path / "x.gz", manifest) as packer:
        packer.add("log", Shrinking(b"onetwo"), 0o600, 1.0, most=1_000)
    assert members_of(tmp_path / "x.gz")["log"] == b"onetwo"
    assert read_archive(tmp_path / "x.gz") == manifest


def test_a_large_file_is_whole(tmp_path: Path) -> None:
    manifest, content = Manifest(1.0, 1), bytes(range(256)) * (SPOOLED // 200)
    with pack(tmp_path / "x.gz", manifest) as packer:
        packer.add("large", io.BytesIO(content), 0o600, 1.0)
    assert members_of(tmp_path / "x.gz")["large"] == content
    assert read_archive(tmp_path / "x.gz") == manifest
    assert [path.name for path in tmp_path.iterdir()] == ["x.gz"]

"""Pictures before a model: upright, without place and camera; the file itself stays as it is."""

import errno
import io
from pathlib import Path

import pytest

from goclaw.common.core import catalog
from goclaw.testing import Bench, open_bench
from goclaw.tools.builtin.read import read


def photo(orientation: int = 6) -> bytes:
    """A photo of 40 by 20 pixels from Berlin, which lies on its side."""
    image = pytest.importorskip("PIL.Image")
    made = image.new("RGB", (40, 20), "white")
    exif = made.getexif()
    exif[0x0112], exif[0x010F], exif[0x0110] = orientation, "Leica", "M3"
    exif.get_ifd(0x8825).update({1: "N", 2: (52.0, 31.0, 12.0), 3: "W", 4: (13.0, 22.0, 30.0)})
    exif.get_ifd(0x8769)[0x9003] = "2026:03:02 10:00:00"
    sink = io.BytesIO()
    made.save(sink, "JPEG", exif=exif)
    return sink.getvalue()


async def seen(bench: Bench, data: bytes) -> tuple[bytes, str]:
    """The picture that the model gets of a file, and the words."""
    (bench.folder / "a.jpg").write_bytes(data)
    result = await bench.call("read", {"path": "a.jpg"})
    assert (bench.folder / "a.jpg").read_bytes() == data
    return next(bench.folder.parent.rglob(result.images[0].blob)).read_bytes(), result.content


@pytest.mark.sandbox
async def test_a_photo_is_turned_upright_and_says_where_it_was_taken_only_when_asked(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    async with open_bench(tmp_path, read) as bench:
        shown, words = await seen(bench, photo())
        upright, _ = await seen(bench, photo(1))
        asked = await bench.call("read", {"path": "a.jpg", "member": "exif"})
    with image.open(io.BytesIO(shown)) as opened:
        assert opened.size == (20, 40) and not dict(opened.getexif())
    assert 'member="exif" has it' in words and b"Leica" not in upright
    with image.open(io.BytesIO(upright)) as opened:
        assert opened.size == (40, 20)
    for fact in ("camera: Leica M3", "taken at: 2026:03:02 10:00:00", "place: 52.520000, -13.375000"):
        assert fact in asked.content
    assert asked.foreign and not asked.images


@pytest.mark.parametrize("is_disk_full", [False, True])
async def test_a_photo_that_cannot_be_turned_keeps_only_the_mark_of_which_way_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_disk_full: bool
) -> None:
    image = pytest.importorskip("PIL.Image")
    if is_disk_full:

        def copy() -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("goclaw.extensions.documents.reading.tempfile.TemporaryFile", copy)
    else:
        monkeypatch.setattr(catalog, "SANDBOXES", {"off": catalog.SANDBOXES["off"]})
        monkeypatch.setattr("goclaw.tools.execution.sandbox.select.SANDBOXES", {"off": catalog.SANDBOXES["off"]})
    async with open_bench(tmp_path, read) as bench:
        shown, _ = await seen(bench, photo())
    with image.open(io.BytesIO(shown)) as opened:
        assert opened.size == (40, 20) and dict(opened.getexif()) == {0x0112: 6}

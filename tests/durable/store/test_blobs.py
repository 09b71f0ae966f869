"""Media by hash, and outputs that belong to one person."""

import hashlib
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.durable.store.blobs import Blobs, open_blobs
from goclaw.errors import StateError, ToolError

ANNA, BEN = "telegram:5", "telegram:6"


async def whole(blobs: Blobs, name: str, key: str) -> bytes:
    """All of an output, as the actor `key` reads it."""
    return await blobs.use_spill(name, key, lambda file: file.read())


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def blobs(tmp_path: Path, clock: SteppedClock) -> AsyncIterator[Blobs]:
    async with open_blobs(tmp_path / "blobs", clock) as opened:
        yield opened


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def spill(blobs: Blobs, data: bytes, owner: str = ANNA, bound: int = 1 << 20) -> str:
    async with blobs.open_spill(owner, bound) as opened:
        for start in range(0, len(data), 1000):
            await opened.write(data[start : start + 1000])
    return opened.name


async def test_media_are_found_by_their_hash(blobs: Blobs) -> None:
    key = await blobs.put(b"picture", "image/png")

    assert key == hashlib.sha256(b"picture").hexdigest()
    assert await blobs.put(b"picture", "image/png") == key
    assert (await blobs.get(key), await blobs.mime(key)) == (b"picture", "image/png")


@pytest.mark.parametrize("key", ["", "x", "0" * 64, "../" * 21 + "x", "A" * 64])
async def test_an_unknown_key_is_an_error_in_words(key: str, blobs: Blobs) -> None:
    for attempt in (blobs.get(key), blobs.mime(key)):
        with pytest.raises(ToolError, match="no such media"):
            await attempt


async def test_damaged_media_are_noticed(blobs: Blobs, tmp_path: Path) -> None:
    key = await blobs.put(b"picture", "image/png")
    (tmp_path / "blobs" / "media" / key).write_bytes(b"pictuRe")

    with pytest.raises(ToolError, match="damaged media"):
        await blobs.get(key)


async def test_only_the_daemon_s_user_may_look(blobs: Blobs, tmp_path: Path) -> None:
    await blobs.put(b"picture", "image/png")
    await spill(blobs, b"output")

    everything = [tmp_path / "blobs", *(tmp_path / "blobs").rglob("*")]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in everything if path.is_dir()}
    assert modes == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(tmp_path)} == {0o600}


@pytest.mark.promise("P-spill-owner")
async def test_an_output_is_read_by_its_owner_only(blobs: Blobs) -> None:
    name = await spill(blobs, b"all of it")

    assert await whole(blobs, name, ANNA) == b"all of it"
    assert await whole(blobs, name.removeprefix("output:"), ANNA) == b"all of it"
    with pytest.raises(ToolError) as forbidden:
        await whole(blobs, name, BEN)
    with pytest.raises(ToolError) as unknown:
        await whole(blobs, "output:0123456789abcdef", ANNA)
    assert str(forbidden.value).replace(name, "X") == str(unknown.value).replace("output:0123456789abcdef", "X")


@pytest.mark.parametrize("name", ["output:", "output:../media", "output:*", "output:0123", "output:\0"])
async def test_a_strange_output_name_finds_nothing(name: str, blobs: Blobs) -> None:
    await spill(blobs, b"x")

    with pytest.raises(ToolError, match="no such output"):
        await whole(blobs, name, ANNA)


async def test_an_output_is_kept_up_to_its_bound(blobs: Blobs, tmp_path: Path) -> None:
    async with blobs.open_spill(ANNA, bound=1500) as opened:
        await opened.write(b"a" * 1000)
        assert not opened.truncated
        await opened.write(b"b" * 1000)
        await opened.write(b"c" * 1000)

    assert (opened.truncated, opened.kept) == (True, 1500)
    assert await whole(blobs, opened.name, ANNA) == b"a" * 1000 + b"b" * 500


async def test_an_output_that_failed_is_not_kept(blobs: Blobs, tmp_path: Path) -> None:
    async def fail() -> None:
        async with blobs.open_spill(ANNA) as opened:
            await opened.write(b"x")
            raise RuntimeError("cut")

    with pytest.raises(RuntimeError):
        await fail()

    assert files(tmp_path) == []


async def test_sweeping_removes_what_is_old(blobs: Blobs, clock: SteppedClock, tmp_path: Path) -> None:
    old = await blobs.put(b"old", "image/png")
    used_again = await blobs.put(b"used again", "image/png")
    output = await spill(blobs, b"output")
    clock.advance(400)
    new = await blobs.put(b"new", "image/png")
    await blobs.put(b"used again", "image/png")
    clock.advance(300)

    assert await blobs.sweep(600, spill_ttl=3600) == 1

    assert (await blobs.get(new), await blobs.get(used_again)) == (b"new", b"used again")
    assert await whole(blobs, output, ANNA) == b"output"
    with pytest.raises(ToolError):
        await blobs.get(old)
    clock.advance(10_000)
    assert await blobs.sweep(600) == 3
    assert files(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_folder_that_cannot_be_made_is_an_error_in_words() -> None:
    with pytest.raises(StateError, match="cannot be used"):
        async with open_blobs(Path("/usr/blobs")):
            pass


async def test_media_are_removed_by_key_unless_somebody_has_put_them_again(
    blobs: Blobs, clock: SteppedClock, tmp_path: Path
) -> None:
    old, again = await blobs.put(b"old", "image/png"), await blobs.put(b"again", "image/png")
    clock.advance(10)
    moment = clock.now()
    assert await blobs.old_media(moment) == {old, again}
    await blobs.put(b"again", "image/png")
    assert await blobs.remove_media([old, again, "0" * 64], moment) == {again}
    assert await blobs.get(again) == b"again"
    assert {path.name for path in files(tmp_path / "blobs" / "media")} == {again, f"{again}.type"}


async def test_outputs_are_removed_for_their_owner_only(blobs: Blobs) -> None:
    mine, other = await spill(blobs, b"mine"), await spill(blobs, b"other", BEN)
    ids = [name.removeprefix("output:") for name in (mine, other)]
    await blobs.remove_outputs([*((each, ANNA) for each in ids), ("../../x", ANNA), ("f" * 16, ANNA)])
    assert await whole(blobs, other, BEN) == b"other"
    with pytest.raises(ToolError, match="no such output"):
        await whole(blobs, mine, ANNA)

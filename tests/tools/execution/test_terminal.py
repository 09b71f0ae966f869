"""What a terminal shows of an output at its end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goclaw.tools.execution.terminal import MAX_ROW, ROWS, Screen
from tests.tables import table


async def drawn(*chunks: bytes, eager: bool = False) -> str:
    screen = Screen(eager=eager)
    finished = [await screen.write(chunk) for chunk in chunks]
    return b"".join([*finished, screen.rest()]).decode(errors="replace")


SHOWN: list[tuple[bytes, str]] = [
    (b"ERROR\n" + b"".join(b"\r\x1b[2K%d%%" % part for part in range(100)) + b"\nDONE\n", "ERROR\n99%\nDONE\n"),
    (b"one\r\ntwo\r\n", "one\ntwo\n"),
    (b"longer line\rshort", "shortr line"),
    (b"abc\x08\x08X", "aXc"),
    (b"db: pulling\nweb: pulling\n\x1b[2Adb: done   \n\x1b[Kweb: done\n", "db: done\nweb: done\n"),
    (b"\x1b[1;31mred\x1b[0m and \x1b[38;5;9mred\x1b[m", "red and red"),
    (b"\x1b]0;a title\x07text \x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "text link"),
    (b"before\n\x1b[H\x1b[2J\x1b[3Jafter\n", "after\n"),
    (b"Name: \rName: Bob", "Name: Bob"),
    (b"a\x1b[5Cb", "a     b"),
    (b"12345\x1b[2G\x1b[0Kx", "1x"),
    (b"12345\x1b[3D\x1b[1K", "   45"),
    (b"a\x1b[999999999Cb", "a" + " " * 999 + "b"),
    ("caf\u00e9\rC".encode(), "Caf\u00e9"),
    (b"k-1111\rk-2222\x1b[4D9\n", "k-9222\n"),
]


@table("written, shown", SHOWN)
async def test_an_output_is_shown_as_a_terminal_shows_it_at_the_end(written: bytes, shown: str) -> None:
    assert await drawn(written) == shown


@settings(max_examples=60)
@given(st.sampled_from(SHOWN), st.data())
async def test_chunks_that_end_anywhere_change_nothing(row: tuple[bytes, str], data: st.DataObject) -> None:
    written, shown = row
    cuts = sorted(data.draw(st.sets(st.integers(0, len(written)), max_size=8)))
    pieces = [written[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(written)], strict=True)]
    assert await drawn(*pieces) == shown


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=40)))
async def test_no_bytes_break_it(chunks: list[bytes]) -> None:
    await drawn(*chunks)


async def test_a_text_without_control_characters_and_what_is_no_text_stay_as_they_are() -> None:
    text = "\n".join(f"line {number} \u00e4\u00f6" for number in range(3 * ROWS))
    encoded = text.encode()
    assert await drawn(*(encoded[at : at + 7] for at in range(0, len(encoded), 7))) == text
    screen, data = Screen(), bytes(range(256)) * 3
    assert await screen.write(b"head\n") + await screen.write(data) + screen.rest() == b"head\n" + data


async def test_a_row_without_an_end_is_not_kept_in_memory() -> None:
    for first in (b"x", b"\r", b"x\r"):
        screen = Screen()
        await screen.write(first)
        for _ in range(3 * ROWS):
            await screen.write(b"x" * MAX_ROW)
        assert len(screen.rest()) <= (ROWS + 1) * MAX_ROW


@pytest.mark.parametrize("eager", [True, False])
async def test_an_eager_screen_finishes_whole_lines_at_once(eager: bool) -> None:
    screen = Screen(eager=eager)
    assert await screen.write(b"one\ntwo\nthr") == (b"one\ntwo\n" if eager else b"")

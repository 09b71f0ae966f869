"""What goes through the pipes arrives as it was sent, or not at all."""

import io

import pytest

from goclaw.extensions.local_embedders.worker.protocol import LENGTHS, frame, lengths, read_frame


class Dripping(io.RawIOBase):
    """A pipe that gives a byte at a time."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def read(self, size: int = -1) -> bytes:
        return self._content.read(min(size, 1))


def test_frames_arrive_whole_however_the_pipe_cuts_them() -> None:
    pipe = Dripping(frame({"number": 1, "texts": ["ü", "half \ud83d"]}) + frame({}, b"\x00\xff" * 300))
    assert read_frame(pipe) == ({"number": 1, "texts": ["ü", "half \ud83d"]}, b"")
    assert read_frame(pipe) == ({}, b"\x00\xff" * 300)
    assert read_frame(pipe) is None


@pytest.mark.parametrize("missing", [1, 5, 20])
def test_one_that_is_cut_off_is_the_end(missing: int) -> None:
    assert read_frame(Dripping(frame({"number": 1}, b"12345678")[:-missing])) is None


@pytest.mark.parametrize("prefix", [b"HTTP/1.1", LENGTHS.pack(2, 1 << 31), LENGTHS.pack(0, 0)])
def test_what_is_no_frame_is_refused_before_it_is_read(prefix: bytes) -> None:
    with pytest.raises(ValueError, match="no frame"):
        lengths(prefix)

"""Sound and film that are made for tests: heads with a length, and nothing to hear or to see."""

import io
import struct
import wave


def box(name: bytes, body: bytes, size: int | None = None) -> bytes:
    """A part of an MP4 file; `size` is what it claims."""
    return struct.pack(">I4s", len(body) + 8 if size is None else size, name) + body


def mp4(seconds: int, width: int = 640, height: int = 360, *, long: bool = False) -> bytes:
    """A film, the head of which has the short or the long form."""
    times = (
        struct.pack(">IQQIQ", 1 << 24, 0, 0, 600, seconds * 600)
        if long
        else struct.pack(">IIIII", 0, 0, 0, 600, seconds * 600)
    )
    track = struct.pack(">I72sII", 0, b"", width << 16, height << 16)
    moov = box(b"moov", box(b"mvhd", times + bytes(80)) + box(b"trak", box(b"tkhd", track)))
    return box(b"ftyp", b"mp42\0\0\0\0") + box(b"mdat", bytes(500)) + moov


def wav(seconds: int) -> bytes:
    """Silence."""
    sink = io.BytesIO()
    with wave.open(sink, "wb") as made:
        made.setnchannels(1)
        made.setsampwidth(1)
        made.setframerate(1_000)
        made.writeframes(bytes(1_000 * seconds))
    return sink.getvalue()


def ogg(seconds: int, codec: str = "opus") -> bytes:
    """Opus or Vorbis: the first page and the last one."""
    head = (
        struct.pack("<8sBBHI", b"OpusHead", 1, 1, 312, 48_000)
        if codec == "opus"
        else struct.pack("<7sIBI", b"\x01vorbis", 0, 1, 8_000)
    )
    last = seconds * 48_000 + 312 if codec == "opus" else seconds * 8_000
    page = struct.pack("<4sBBqIIIBB", b"OggS", 0, 2, 0, 1, 0, 0, 1, len(head)) + head
    return page + bytes(900) + struct.pack("<4sBBqIIIBB", b"OggS", 0, 4, last, 1, 9, 0, 1, 1) + b"x"


def flac(seconds: int) -> bytes:
    """The first block of a FLAC file."""
    return b"fLaC\0\0\0\x22" + bytes(10) + ((44_100 << 44) | (44_100 * seconds)).to_bytes(8, "big") + bytes(16)


def mp3(seconds: int, *, counted: bool = True) -> bytes:
    """MPEG audio behind a tag, with or without the number of its frames."""
    frame = b"\xff\xfb\x90\xc4" + bytes(32)
    head = frame + (b"Info" + struct.pack(">II", 1, seconds * 44_100 // 1_152 + 1) if counted else b"")
    tag = b"ID3\x04\0\0\0\0\x01\x00" + bytes(128)
    return tag + head + bytes((0 if counted else seconds * 16_000) + 500)


def avi(seconds: int, width: int = 320, height: int = 240) -> bytes:
    """The head of an AVI file."""
    head = struct.pack("<10I", 40_000, 0, 0, 0, seconds * 25, 0, 1, 0, width, height) + bytes(16)
    return b"RIFF\0\0\1\0AVI LIST\0\1\0\0hdrlavih" + struct.pack("<I", len(head)) + head


def element(name: bytes, body: bytes) -> bytes:
    """A part of a WebM file."""
    return name + bytes([0x80 | len(body)]) + body


def webm(seconds: int, width: int = 640, height: int = 480) -> bytes:
    """The head of a WebM file."""
    info = element(b"\x2a\xd7\xb1", (1_000_000).to_bytes(3, "big")) + element(
        b"\x44\x89", struct.pack(">d", seconds * 1e3)
    )
    film = element(b"\xe0", element(b"\xb0", width.to_bytes(2, "big")) + element(b"\xba", height.to_bytes(2, "big")))
    tracks = element(b"\x16\x54\xae\x6b", element(b"\xae", element(b"\xd7", b"\1") + film))
    head = element(b"\x1aE\xdf\xa3", element(b"\x42\x82", b"webm"))
    return head + b"\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff" + element(b"\x15\x49\xa9\x66", info) + tracks

"""The reader's process: what it cannot reach, what ends it, and what it may answer."""

import base64
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core import catalog
from goclaw.common.core.messages import SourceKind
from goclaw.common.core.redact import remember
from goclaw.errors import ToolError
from goclaw.extensions.documents import reading
from goclaw.extensions.documents.worker import REFUSED
from goclaw.testing import Bench, open_bench
from goclaw.tools.builtin.read import read
from tests.extensions.documents.made import bmp, pdf, xlsx
from tests.picture_support import png

TIERS = ["bubblewrap", "broker"]
PROBE = """
import json, os, socket, sys
told = {"env": sorted(os.environ), "stdin": len(sys.stdin.buffer.read())}
def attempt(name, act):
    try:
        act()
        told[name] = "done"
    except OSError as error:
        told[name] = type(error).__name__
workspace, state, port = %r, %r, %d
attempt("workspace", lambda: open(workspace + "/secret.txt").read())
attempt("listing", lambda: os.listdir(state))
attempt("written", lambda: open(workspace + "/made.txt", "w"))
attempt("network", lambda: socket.create_connection(("127.0.0.1", port), 2))
attempt("own file", lambda: open("/proc/self/fd/0", "r+b").write(b"changed"))
attempt("processes", lambda: os.kill(%d, 0))
text = json.dumps(told)
print(json.dumps({"kind": "probe", "unit": "page", "total": 1, "shown": "1", "rest": "", "outline": [], "text": text,
    "notes": [], "pictures": []}))
"""


def settings(tier: str) -> dict[str, dict[str, str]]:
    return {"exec": {"sandbox": tier}}


def put(bench: Bench, name: str, data: bytes) -> Path:
    path = bench.folder / name
    path.write_bytes(data)
    return path


@pytest.mark.sandbox
@pytest.mark.promise("P-documents-contained")
@pytest.mark.parametrize("tier", [*TIERS, "off"])
async def test_the_process_that_reads_a_document_reaches_nothing_but_the_file(
    tier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        told = await probe(tier, tmp_path, port, monkeypatch)
    reached = [name for name in ("workspace", "listing", "written", "network", "processes") if told[name] == "done"]
    assert not reached, told
    assert "ANTHROPIC_API_KEY" not in told["env"]


async def probe(tier: str, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a program in the reader's place reaches; the document has not changed then."""
    async with open_bench(tmp_path, read, tools=settings(tier)) as bench:
        (bench.folder / "secret.txt").write_text("secret")
        document = put(bench, "a.pdf", pdf(["text"]))
        before = document.read_bytes()
        program = PROBE % (str(bench.folder), str(tmp_path / "state"), port, os.getpid())
        monkeypatch.setattr(reading, "BOOT", program)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        result = await bench.call("read", {"path": "a.pdf"})
        assert not result.is_error, result.content
        told: dict[str, Any] = json.loads(result.content.partition("\t")[2])
        assert document.read_bytes() == before and not (bench.folder / "made.txt").exists()
    assert told["stdin"] == len(before)
    return told


@pytest.mark.sandbox
@pytest.mark.promise("P-documents-contained")
@pytest.mark.parametrize("tier", TIERS)
async def test_a_document_is_read_in_every_tier_as_the_words_of_others(tier: str, tmp_path: Path) -> None:
    async with open_bench(tmp_path, read, tools=settings(tier)) as bench:
        put(bench, "a.pdf", pdf(["Invoice 4711", "Total: 77 EUR"]))
        result = await bench.call("read", {"path": "a.pdf"})
        page = await bench.call("read", {"path": "a.pdf", "pages": "2"})
    lines = ["[a.pdf: PDF, 2 pages]", "--- page 1 ---", "Invoice 4711", "--- page 2 ---", "Total: 77 EUR"]
    assert [line.partition("\t")[2] or line for line in result.content.splitlines()] == lines
    assert page.content.startswith("[a.pdf: PDF, 2 pages; page 2 follows]") and "4711" not in page.content
    assert result.foreign and result.provenance is not None and result.provenance.kind is SourceKind.DOCUMENT


@pytest.mark.sandbox
async def test_a_sheet_and_a_scanned_page_are_read_by_the_tool(tmp_path: Path) -> None:
    async with open_bench(tmp_path, read) as bench:
        put(bench, "a.xlsx", xlsx({"S": '<row r="1"><c r="A1"><v>5</v></c><c r="B1"><v>7</v></c></row>'}))
        put(bench, "scan.pdf", pdf([""], scanned=True))
        put(bench, "a.csv", b"a,b\n1,2\n")
        cells = await bench.call("read", {"path": "a.xlsx", "sheet": "S!B1:B1"})
        scan = await bench.call("read", {"path": "scan.pdf"})
        lines = await bench.call("read", {"path": "a.csv"})
        record = await bench.call("read", {"path": "a.csv", "sheet": "B2:B2"})
    assert "1 | 7" in cells.content and "5" not in cells.content.partition("row |")[2]
    assert [picture.mime for picture in scan.images] == ["image/png"]
    assert lines.content == "     1\ta,b\n     2\t1,2" and "2 | 2" in record.content


@pytest.mark.sandbox
@pytest.mark.promise("P-documents-contained")
async def test_a_reader_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BOOT", "import threading; threading.Event().wait()")
    monkeypatch.setattr(reading, "SECONDS", 1)
    async with open_bench(tmp_path, read) as bench:
        put(bench, "a.pdf", pdf(["text"]))
        result = await bench.call("read", {"path": "a.pdf"})
    assert result.is_error and "a.pdf is not read: it took more than 1 s" in result.content


@pytest.mark.sandbox
@pytest.mark.promise("P-documents-contained")
async def test_a_reader_that_fills_the_memory_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BOOT", "kept = [bytearray(b'x') * (1 << 28) for _ in range(4)]")
    async with open_bench(tmp_path, read) as bench:
        put(bench, "a.pdf", pdf(["text"]))
        result = await bench.call("read", {"path": "a.pdf"})
    assert result.is_error and "broke off; it is damaged, or needs more than 512 MB" in result.content


@pytest.mark.promise("P-documents-contained")
async def test_without_a_tier_a_document_is_refused_unless_the_configuration_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "SANDBOXES", {"off": catalog.SANDBOXES["off"]})
    monkeypatch.setattr("goclaw.tools.execution.sandbox.select.SANDBOXES", {"off": catalog.SANDBOXES["off"]})
    async with open_bench(tmp_path / "a", read) as bench:
        put(bench, "a.pdf", pdf(["text"]))
        refused = await bench.call("read", {"path": "a.pdf"})
    async with open_bench(tmp_path / "b", read, documents={"unsandboxed": True}) as bench:
        put(bench, "a.pdf", pdf(["Invoice 4711"]))
        allowed = await bench.call("read", {"path": "a.pdf"})
    assert refused.is_error and "nothing on this machine contains the program" in refused.content
    assert "docs/files.md" in refused.content
    assert "Invoice 4711" in allowed.content


@pytest.mark.sandbox
async def test_a_file_that_is_too_large_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    async with open_bench(tmp_path, read, documents={"max_file_mb": 1}) as bench:
        put(bench, "a.pdf", pdf(["text"]) + bytes(2 << 20))
        result = await bench.call("read", {"path": "a.pdf"})
    assert result.is_error and "a.pdf is not read: it has more than 1 MB" in result.content


@pytest.mark.sandbox
async def test_a_picture_of_another_kind_names_the_extra_or_is_shown(tmp_path: Path) -> None:
    async with open_bench(tmp_path, read) as bench:
        put(bench, "a.bmp", bmp(40, 30))
        result = await bench.call("read", {"path": "a.bmp"})
    shown = [picture.mime for picture in result.images] == [
        "image/jpeg"
    ] and "BMP picture of 40 by 30" in result.content
    assert shown or (result.is_error and "goclaw[documents]" in result.content)


WHOLE: dict[str, object] = {"kind": "PDF", "unit": "page", "total": 1, "text": "x" * 90, "notes": ["n"] * 99}


@pytest.mark.promise("P-documents-contained")
@pytest.mark.parametrize(
    "change", [{"total": "x"}, {"total": -1}, {"unit": "x\ny"}, {"outline": 5}, {"pictures": [[1]]}, {"text": None}]
)
def test_an_answer_of_another_form_is_refused_in_words(change: dict[str, object]) -> None:
    with pytest.raises(ToolError, match=r"^a\.pdf is not read: the program that reads it broke off"):
        reading.document_of("a.pdf", json.dumps(WHOLE | change).encode(), 50)


@pytest.mark.promise("P-documents-contained")
def test_an_answer_is_bounded_and_its_pictures_are_pictures() -> None:
    pictures = [["image/png", base64.b64encode(data).decode()] for data in (png(8, 8), b"no picture", png(8, 8)[:30])]
    told = reading.document_of("a.pdf", json.dumps(WHOLE | {"pictures": pictures}).encode(), 50)
    assert len(told.text) == 50 and len(told.notes) == 20
    assert told.pictures == (("image/png", png(8, 8)),)


@pytest.mark.promise("P-documents-contained")
def test_words_of_a_document_stay_on_one_bounded_line_without_secrets() -> None:
    remember("hunter2-hunter2")
    words = "a  b)]\n\r\u2028\nMail it. hunter2-hunter2 " + "x" * 900
    answer = WHOLE | {"kind": words, "shown": words, "rest": words, "notes": [words]}
    told = reading.document_of("a.pdf", json.dumps(answer).encode(), 50)
    with pytest.raises(ToolError) as refused:
        reading.document_of("a.pdf", REFUSED + words.encode(), 50)
    for line in (told.kind, told.shown, told.rest, told.notes[0], str(refused.value).removeprefix("a.pdf ")):
        assert line.startswith("a  b)] Mail it. [secret] x") and len(line) <= 500


@pytest.mark.promise("P-documents-contained")
@pytest.mark.parametrize("answer", [b"", b"[]", b"null", b"{}", b'"x"', b'{"kind": "PDF"}', b"[" * 100_000])
def test_an_answer_that_is_none_is_refused_in_words(answer: bytes) -> None:
    with pytest.raises(ToolError, match=r"^a\.pdf is not read: the program that reads it broke off"):
        reading.document_of("a.pdf", answer, 50)


def test_nothing_of_the_readers_is_loaded_before_a_document_is_read() -> None:
    program = (
        "import sys, goclaw.tools.builtin.read, goclaw.tools.builtin.web, goclaw.conversation.turns.attachments; "
        "print([name for name in sys.modules if name.startswith(('goclaw.extensions', 'pypdfium2', 'PIL'))])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50)
    assert told.stdout.strip() == "[]"


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("name", "content"), [("todo.eml", "Buy milk\nand tea\n"), ("a.rtf", "{\\rtf Buy milk\nand tea")]
)
async def test_a_text_that_only_seems_to_be_a_document_is_read_as_it_is(
    name: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "a.rtf":
        monkeypatch.setattr(reading, "BOOT", "")  # a reader that breaks off
    async with open_bench(tmp_path, read) as bench:
        put(bench, name, content.encode())
        whole = await bench.call("read", {"path": name})
        line = await bench.call("read", {"path": name, "start_line": 2})
        part = await bench.call("read", {"path": name, "pages": "7"})
        put(bench, name, content.encode() + bytes(2_000))
        binary = await bench.call("read", {"path": name})
    assert not whole.is_error and "; this is its text]\n     1\t" in whole.content and "Buy milk" in whole.content
    assert whole.foreign and line.content.endswith("     2\tand tea")
    assert part.is_error and binary.is_error

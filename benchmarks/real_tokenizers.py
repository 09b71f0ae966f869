"""Real tokenizers, for comparison: those whose vocabulary comes inside a package, in an environment of their own."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from benchmarks.gateways import ROOT

ENVIRONMENT = ROOT / ".tools" / "tokenizers"
LOCK = ROOT / "benchmarks" / "tokenizers.lock"
INSTALL_SECONDS = 300.0

Counts = dict[str, list[int]]
"""By tokenizer, a count for each text."""


class TokenizersMissing(Exception):
    """The environment cannot be made here; the text says why."""


async def count(texts: Sequence[str]) -> Counts:
    """How many tokens each text has.

    Raises:
        TokenizersMissing: the packages cannot be installed or do not run here.
    """
    python = await _environment()
    given = json.dumps(list(texts)).encode()
    return dict(json.loads(await _output([str(python), "-m", "benchmarks.tokenizer_worker"], given)))


async def counter(name: str) -> AbstractContextManager[Callable[[str], int]]:
    """What counts the tokens of one text after the other by a tokenizer; it blocks for as long as that takes.

    Raises:
        TokenizersMissing: the packages cannot be installed or do not run here.
    """
    return _counting(await _environment(), name)


@contextmanager
def _counting(python: Path, name: str) -> Iterator[Callable[[str], int]]:
    command, pipe = [str(python), "-m", "benchmarks.tokenizer_worker", name], subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        given, found = process.stdin, process.stdout
        assert given is not None and found is not None

        def count(text: str) -> int:
            print(json.dumps(text), file=given, flush=True)
            return int(found.readline())

        yield count


async def _environment() -> Path:
    python = ENVIRONMENT / "bin" / "python"
    stamp, wanted = ENVIRONMENT / ".stamp", LOCK.read_text("utf-8") + sys.version
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return python
    try:
        async with asyncio.timeout(INSTALL_SECONDS):
            uv = (await _output([sys.executable, str(ROOT / "scripts" / "_bootstrap.py"), "uv"])).decode().strip()
            await _output([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(ENVIRONMENT)])
            install = [uv, "pip", "sync", "--quiet", "--require-hashes", "--python", str(python), str(LOCK)]
            await _output(install)
    except TimeoutError as error:
        raise TokenizersMissing(f"not installed within {INSTALL_SECONDS:.0f} s") from error
    stamp.write_text(wanted, "utf-8")
    return python


async def _output(command: Sequence[str], given: bytes = b"") -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        said, errors = await process.communicate(given)
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise TokenizersMissing(errors.decode(errors="replace").strip().rpartition("\n")[2])
    return said

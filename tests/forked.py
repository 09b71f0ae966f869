"""`goclaw <arguments>` as a process of its own that does not start Python anew (`tests.acceptance.forking`).

It is as separate as one that does: its own environment, folder, streams, exit code and end. What differs is what
`/proc/PID/environ` shows, and that the modules were imported before; a test of those starts `python -m goclaw`.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path

from goclaw.program.cli.program import main
from tests.acceptance import forking

SECONDS = 50.0


def run_goclaw(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    given: bytes = b"",
    seconds: float = SECONDS,
    cold: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run `goclaw <arguments>` to its end.

    Args:
        environment: all of its environment.
        folder: where it runs.
        given: its standard input.
        seconds: after which it is killed.
        cold: start Python anew, as it is for people; it takes a second.

    Raises:
        TimeoutError, subprocess.TimeoutExpired: it was killed.
    """
    if not cold and forking.IS_POSSIBLE:
        return asyncio.run(_forked(arguments, environment, folder, given, seconds))
    return subprocess.run(
        [sys.executable, "-m", "goclaw", *arguments],
        input=given,
        capture_output=True,
        timeout=seconds,
        env=environment,
        cwd=folder,
        check=False,
    )


async def _forked(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, given: bytes, seconds: float
) -> subprocess.CompletedProcess[bytes]:
    command = [__name__, str(folder), *arguments]
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(given)
        files[0].seek(0)
        descriptors = {place: file.fileno() for place, file in enumerate(files)}
        process = await forking.template().start(command, environment, descriptors)
        try:
            async with asyncio.timeout(seconds):
                code = await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        for file in files[1:]:
            file.seek(0)
        return subprocess.CompletedProcess(command, code, files[1].read(), files[2].read())


def _open_streams() -> None:
    """Open anew what stands for the descriptors 0 to 2: these objects know what kind of file they were opened on."""
    sys.stdin = TextIOWrapper(BufferedReader(FileIO(0, closefd=False)), "utf-8")
    sys.stdout = TextIOWrapper(BufferedWriter(FileIO(1, "w", closefd=False)), "utf-8")
    err = BufferedWriter(FileIO(2, "w", closefd=False))
    sys.stderr = TextIOWrapper(err, "utf-8", "backslashreplace", line_buffering=True)


if __name__ == "__main__":
    os.chdir(sys.argv.pop(1))
    _open_streams()
    main()

"""Which Python runs a model on this machine, and what is installed there. It is asked without importing any of that."""

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from goclaw.errors import ConfigError
from goclaw.records import record

SECONDS = 30.0
"""Time limit for a Python to start and look; it takes 0.1."""
_LOOK = """\
import json, sys
from importlib.util import find_spec
found = {name: find_spec(name) for name in sys.argv[1:]}
print(json.dumps({name: list(spec.submodule_search_locations or ()) for name, spec in found.items() if spec}))
"""


@record
class Interpreter:
    """A Python."""

    path: str
    packages: Mapping[str, str]
    """The folder of each package that was asked for and is there; empty for a single file."""

    def has(self, *names: str) -> bool:
        """Whether all these packages can be imported."""
        return all(name in self.packages for name in names)


async def interpreter(path: Path | None, names: Iterable[str]) -> Interpreter:
    """Return the Python at `path` (not set: the one that runs this), asked for packages of these names.

    Raises:
        ConfigError: no Python is at `path`.
    """
    if path is None:
        found = {name: find_spec(name) for name in names}
        places = {name: list(spec.submodule_search_locations or ()) for name, spec in found.items() if spec}
        path = Path(sys.executable)
    else:
        try:
            places = json.loads(await _asked(path, names))
        except (OSError, ValueError, TimeoutError):
            raise ConfigError(f"memory.embedder_python: {path} does not work as a Python does") from None
    return Interpreter(str(path), {name: folders[0] if folders else "" for name, folders in places.items()})


async def _asked(path: Path, names: Iterable[str]) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *(str(path), "-I", "-c", _LOOK, *names),
        cwd="/",
        env={},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(SECONDS):
            said, _ = await process.communicate()
        return said
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

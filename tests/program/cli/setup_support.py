"""A step of the wizard without a terminal: answers wait in a pipe, what is said is kept."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from goclaw.common.config.load import Loaded, load_config
from goclaw.common.core.clock import RealClock
from goclaw.common.net import open_client
from goclaw.program.cli.setup_dialogue import Dialogue, Scene

NOBODY = "http://127.0.0.1:9"
"""An Ollama of the machine that runs the tests must not be found."""


class Heard(Dialogue):
    """A dialogue whose words can be read; `typed` goes into it, as from a keyboard."""

    def __init__(self, source: int, end: int, *, silent: bool = False) -> None:
        super().__init__(source, silent=silent)
        self._end = end
        self.text = ""

    def print(self, text: str = "", *, end: str = "\n") -> None:
        super().print(text, end=end)
        self.text += text + end

    def type(self, *lines: str) -> None:
        os.write(self._end, "".join(f"{line}\n" for line in lines).encode())


@contextmanager
def dialogue(*answers: str, silent: bool = False, ends: bool = False) -> Iterator[Heard]:
    """With these answers typed already; with `ends` there come no others."""
    source, end = os.pipe()
    heard = Heard(source, end, silent=silent)
    heard.type(*answers)
    if ends:
        os.close(end)
    try:
        yield heard
    finally:
        os.close(source)
        if not ends:
            os.close(end)


def loaded(folder: Path, **overrides: Any) -> Loaded:
    """The configuration of an installation in `folder`, and nothing of this machine."""
    environ = {"GOCLAW_STATE_DIR": str(folder / "state")}
    given = {"providers.ollama.base_url": NOBODY, "models.summary": ["demo"]} | overrides
    return load_config(overrides=given, environ=environ, container_secrets=folder / "none", may_be_missing=True)


@asynccontextmanager
async def scene(heard: Heard, folder: Path, **overrides: Any) -> AsyncIterator[Scene]:
    """What the steps work with."""
    async with open_client() as http:
        yield Scene(heard, loaded(folder, **overrides), http, RealClock())

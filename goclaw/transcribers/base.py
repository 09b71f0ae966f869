"""The seam between GoClaw and whatever writes down what was spoken."""

from collections.abc import Callable
from typing import Protocol

import aiohttp

from goclaw.clock import Clock
from goclaw.config.schema import ProviderSettings
from goclaw.records import record


@record
class Recording:
    """Something that was spoken, or a file with sound."""

    content: bytes
    mime: str
    name: str
    """With an ending that says what it is: servers go by it."""


class Transcriber(Protocol):
    """Writes down what was spoken."""

    @property
    def spec(self) -> str:
        """`provider:model`."""
        ...

    async def transcribe(self, recording: Recording) -> str:
        """Return the words; empty without speech. Retries temporary failures; the caller sets the time limit.

        Raises:
            TranscriptionError: in words, without keys.
        """
        ...


@record
class TranscriberPorts:
    """Dependencies of a transcriber."""

    http: aiohttp.ClientSession
    clock: Clock


@record
class TranscriberPart:
    """A line of the catalogue: how to open a transcriber."""

    name: str
    open: Callable[[str, ProviderSettings, TranscriberPorts], Transcriber]
    """From the full spec (`provider:model`). Raises ConfigError when something is missing (a key, an address)."""

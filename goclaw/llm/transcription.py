"""The seam between GoClaw and any transcriber of speech, and the way from `media.transcriber` to one.

A provider that the catalogue does not name speaks OpenAI's protocol.
"""

from collections.abc import Callable
from typing import Protocol

import aiohttp

from goclaw.common.config.schema import Config, ProviderSettings
from goclaw.common.core import catalog
from goclaw.common.core.clock import Clock
from goclaw.common.core.plugins import load, third_party
from goclaw.common.core.records import record


@record
class Recording:
    """Something that was spoken, or a file with sound."""

    content: bytes
    mime: str
    name: str
    """With an ending that says what it is: servers go by it."""


class Transcriber(Protocol):
    """Transcribes speech."""

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


def open_transcriber(config: Config, ports: TranscriberPorts) -> Transcriber | None:
    """Return the configured transcriber; None when none is wanted. Nothing is sent yet.

    Raises:
        ConfigError: it needs a key or an address that it does not have.
    """
    spec = config.media.transcriber
    if spec is None:
        return None
    name = spec.partition(":")[0]
    paths = {**third_party("transcribers"), **catalog.TRANSCRIBERS}
    part = load(paths.get(name, catalog.TRANSCRIBERS["openai"]), TranscriberPart)
    return part.open(spec, config.providers.get(name, ProviderSettings()), ports)

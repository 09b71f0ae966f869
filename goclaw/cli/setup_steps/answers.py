"""Arguments and results of the steps of `goclaw setup`."""

from dataclasses import field
from pathlib import Path

import aiohttp
from pydantic import TypeAdapter, ValidationError

from goclaw.cli.setup_steps.dialogue import Dialogue
from goclaw.clock import Clock
from goclaw.config.load import Loaded
from goclaw.config.values import Secret
from goclaw.errors import ConfigError
from goclaw.records import record
from goclaw.redact import remember

MAX_SECRET_BYTES = 64_000
"""As in the secrets folder (`config.sources`)."""
_SECRET: TypeAdapter[object] = TypeAdapter(Secret)


@record
class Scene:
    """Dependencies of every step."""

    dialogue: Dialogue
    loaded: Loaded
    """The configuration as it is before anything is written."""
    http: aiohttp.ClientSession
    clock: Clock


@record
class ModelChoice:
    """A model that answered."""

    spec: str
    key: str = field(default="", repr=False)
    """A new key; empty when none is needed, or the known one did."""

    @property
    def provider(self) -> str:
        return self.spec.partition(":")[0]


@record
class BotChoice:
    """A bot that answered."""

    name: str
    """`@claw_bot`."""
    token: str = field(default="", repr=False)
    """A new token; empty for the one that was configured before."""


@record
class AdminAnswer:
    """The user who gets the role `admin`."""

    key: str
    """`telegram:<numeric user id>`."""
    name: str = ""


@record
class SetupAnswers:
    """Everything that was decided; None for what was skipped."""

    model: ModelChoice | None = None
    bot: BotChoice | None = None
    owner: AdminAnswer | None = None
    ollama: str = ""
    """Address of Ollama; empty: its usual address, or not found."""


def read_secret(path: Path) -> str:
    """Return the secret in a file, which may also be a pipe (`<(pass show telegram)`).

    Raises:
        ConfigError: it cannot be read, or holds no secret.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SECRET_BYTES)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    return checked_secret(content.decode(errors="replace").strip(), str(path))


def checked_secret(text: str, place: str) -> str:
    """Return `text` if it can be a secret; from now on it is masked everywhere.

    Raises:
        ConfigError: it cannot; the message begins with `place` and does not repeat the text.
    """
    remember(text)
    try:
        _SECRET.validate_python(text)
    except ValidationError as error:
        raise ConfigError(f"{place}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
    return text


async def ask_secret(dialogue: Dialogue, question: str) -> str:
    """Return a secret, asked for until it can be one; empty when it was skipped."""
    while typed := await dialogue.ask_hidden(question):
        try:
            return checked_secret(typed, "   ✗ what you typed")
        except ConfigError as error:
            dialogue.say(str(error))
    return ""

"""OpenAI's `POST /audio/transcriptions`, and every server that speaks it (whisper.cpp, faster-whisper, vLLM …)."""

import io
import os
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from goclaw.config.schema import ProviderSettings
from goclaw.errors import ConfigError, TranscriptionError
from goclaw.redact import mask, printable, remember
from goclaw.transcribers.base import Recording, TranscriberPart, TranscriberPorts

ANSWER_LIMIT = 1 << 20
"""Bytes of an answer that are read: an hour of speech is some 60 KB."""
TRIES = 3
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 20.0
PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""HTTP statuses that waiting may mend."""
KEY_REFUSED = frozenset({401, 403})
WORDS_LIMIT = 200
"""Characters of the server's own words that an error quotes."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is known by name."""

    base_url: str
    key_variable: str | None = None


OPENAI = Server("https://api.openai.com/v1", "OPENAI_API_KEY")
SERVERS = {
    "openai": OPENAI,
    "openai-chat": OPENAI,
    "groq": Server("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": Server("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "together": Server("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "vllm": Server("http://127.0.0.1:8000/v1"),
}
"""Each server's API reference as of 2026; `providers.<name>` of the configuration takes precedence."""


class _Passing(TranscriptionError):
    """Another try may succeed, after `wait` seconds if the server said so."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class OpenAITranscriber:
    """A `Transcriber` on one server."""

    def __init__(self, spec: str, base_url: str, key: str | None, ports: TranscriberPorts) -> None:
        self.spec = spec
        self._model = spec.partition(":")[2]
        self._url = f"{base_url.rstrip('/')}/audio/transcriptions"
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self._ports = ports

    async def transcribe(self, recording: Recording) -> str:
        """See `base.Transcriber`."""
        pause = FIRST_PAUSE
        for _ in range(TRIES - 1):
            try:
                return await self._try(recording)
            except _Passing as error:
                await self._ports.clock.sleep(min(error.wait or pause, LONGEST_PAUSE))
                pause *= 2
        return await self._try(recording)

    async def _try(self, recording: Recording) -> str:
        form = aiohttp.FormData({"model": self._model, "response_format": "json"})
        form.add_field("file", io.BytesIO(recording.content), filename=recording.name, content_type=recording.mime)
        try:
            # A redirect would take the key and the recording along to somebody else.
            async with self._ports.http.post(
                self._url, data=form, headers=self._headers, allow_redirects=False
            ) as response:
                body = await _read(response)
                return _words(body) if response.status == 200 else self._refused(response, body)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _Passing(f"{self.spec} cannot be reached ({type(error).__name__})") from None

    def _refused(self, response: aiohttp.ClientResponse, body: bytes) -> str:
        status, provider = response.status, self.spec.partition(":")[0]
        if status in KEY_REFUSED:
            raise TranscriptionError(f"{self.spec} refused the key; check providers.{provider}.api_key")
        message = f"{self.spec} answered HTTP {status}{_quoted(body)}"
        if status in PASSING:
            raise _Passing(message, _seconds(response.headers.get("retry-after", "")))
        raise TranscriptionError(message)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    content = b""
    async for piece in response.content.iter_any():
        content += piece
        if len(content) > ANSWER_LIMIT:
            raise TranscriptionError(f"the transcript is larger than {ANSWER_LIMIT >> 20} MB")
    return content


def _words(body: bytes) -> str:
    """The text of an answer."""
    try:
        answer: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
        raise TranscriptionError("the transcriber's answer has no text; is its base_url right?")
    return str(answer["text"]).strip()


def _quoted(body: bytes) -> str:
    """The server's own words, bounded and masked."""
    try:
        answer = orjson.loads(body)
        error = answer.get("error", answer)
        words = error.get("message") or error.get("detail") if isinstance(error, dict) else error
    except (orjson.JSONDecodeError, AttributeError):
        return ""
    line = " ".join(printable(mask(str(words))).split())[:WORDS_LIMIT] if words else ""
    return f": {line}" if line else ""


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None


def open_openai(spec: str, settings: ProviderSettings, ports: TranscriberPorts) -> OpenAITranscriber:
    """The transcriber for `name:model`: a server of the table, or any with `providers.<name>.base_url`.

    Raises:
        ConfigError: the address or the key is missing.
    """
    name = spec.partition(":")[0]
    server = SERVERS.get(name)
    base_url = settings.base_url or (server.base_url if server else None)
    if base_url is None:
        raise ConfigError(
            f"media.transcriber: no server is known as {name}; set providers.{name}.base_url (http://host:port/v1), "
            f"or take one of {', '.join(sorted(SERVERS))}"
        )
    key = settings.api_key.get_secret_value() if settings.api_key else None
    if key is None and server and server.key_variable and not settings.base_url:
        key = os.environ.get(server.key_variable)
        if not key:
            raise ConfigError(f"media.transcriber: no key; set {server.key_variable} or providers.{name}.api_key")
        remember(key)
    return OpenAITranscriber(spec, base_url, key, ports)


TRANSCRIBER = TranscriberPart("openai", open_openai)

"""OpenAI's `POST /audio/transcriptions`, and every server that speaks it (whisper.cpp, faster-whisper, vLLM …)."""

import io

import aiohttp

from goclaw.common.config.schema import ProviderSettings
from goclaw.common.config.servers import SERVERS, place_of
from goclaw.common.net.client import KEY_REFUSED, PASSING, parse_retry_after, quoted_error, read_whole
from goclaw.errors import TranscriptionError
from goclaw.llm.lenient_json import load_json
from goclaw.llm.transcription import Recording, TranscriberPart, TranscriberPorts

ANSWER_LIMIT = 1 << 20
"""Bytes of an answer that are read: an hour of speech is some 60 KB."""
PAUSES = (1.0, 2.0)
"""Seconds between the tries, where the server does not say how many it wants."""
MAX_PAUSE = 20.0
TRANSCRIBING = ("groq", "mistral", "openai", "openai-chat", "together", "vllm")
"""Which of the servers known by name transcribe (their API references as of 2026)."""


class _Passing(TranscriptionError):
    """Another try may succeed, after `wait` seconds if the server said so."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class OpenAITranscriber:
    """A `Transcriber` for `name:model`: on a server of the table, or on any with `providers.<name>.base_url`.

    Raises:
        ConfigError: the address or the key is missing.
    """

    def __init__(self, spec: str, settings: ProviderSettings, ports: TranscriberPorts) -> None:
        self.spec = spec
        self._provider, _, self._model = spec.partition(":")
        known = {name: SERVERS[name] for name in TRANSCRIBING}
        base_url, self._headers = place_of("media.transcriber", self._provider, settings, known)
        self._url = f"{base_url}/audio/transcriptions"
        self._ports = ports

    async def transcribe(self, recording: Recording) -> str:
        """See `transcription.Transcriber`."""
        for pause in PAUSES:
            try:
                return await self._try(recording)
            except _Passing as error:
                await self._ports.clock.sleep(min(error.wait or pause, MAX_PAUSE))
        return await self._try(recording)

    async def _try(self, recording: Recording) -> str:
        form = aiohttp.FormData({"model": self._model, "response_format": "json"})
        form.add_field("file", io.BytesIO(recording.content), filename=recording.name, content_type=recording.mime)
        try:
            # A redirect would send the key and the recording to another server.
            async with self._ports.http.post(
                self._url, data=form, headers=self._headers, allow_redirects=False
            ) as response:
                body = await read_whole(response, ANSWER_LIMIT)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _Passing(f"{self.spec} cannot be reached ({type(error).__name__})") from None
        if body is None:
            raise TranscriptionError(f"the transcript is larger than {ANSWER_LIMIT >> 20} MB")
        if response.status == 200:
            return _words(body)
        if response.status in KEY_REFUSED:
            raise TranscriptionError(f"{self.spec} refused the key; check providers.{self._provider}.api_key")
        message = f"{self.spec} answered HTTP {response.status}{quoted_error(body)}"
        if response.status in PASSING:
            raise _Passing(message, parse_retry_after(response.headers))
        raise TranscriptionError(message)


def _words(body: bytes) -> str:
    answer = load_json(body)
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
        raise TranscriptionError("the transcriber's answer has no text; is its base_url right?")
    return str(answer["text"]).strip()


TRANSCRIBER = TranscriberPart("openai", OpenAITranscriber)

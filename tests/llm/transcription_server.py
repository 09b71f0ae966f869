"""A server that speaks OpenAI's `/v1/audio/transcriptions` on loopback, and is strict about what it is sent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import BodyPartReader, web

from tests.http_server import serve

FIELDS = {"model", "response_format", "file"}


@dataclass(frozen=True)
class Asked:
    """One request."""

    model: str
    name: str
    mime: str
    content: bytes
    key: str
    """The header `Authorization`, whole."""


@dataclass
class FakeTranscriptions:
    """What it was asked, and what it answers next: `(status, JSON or bytes, headers)`; else the text `heard`."""

    url: str = ""
    heard: str = "Buy milk."
    asked: list[Asked] = field(default_factory=list)
    answers: list[tuple[int, Any, dict[str, str]]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The endpoint; whatever is not exactly as documented is refused."""
        parts: dict[str, tuple[BodyPartReader, bytes]] = {}
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader) and part.name, "a form has named parts and no parts in parts"
            assert part.name not in parts, f"{part.name} comes twice"
            parts[part.name] = (part, bytes(await part.read()))
        if parts.keys() != FIELDS or parts["response_format"][1] != b"json" or not parts["file"][0].filename:
            return web.json_response({"error": {"message": f"wrong fields: {sorted(parts)}"}}, status=400)
        file, content = parts["file"]
        self.asked.append(
            Asked(
                model=parts["model"][1].decode(),
                name=file.filename or "",
                mime=file.headers.get("Content-Type", ""),
                content=content,
                key=request.headers.get("Authorization", ""),
            )
        )
        if not self.answers:
            return web.json_response({"text": self.heard})
        status, body, headers = self.answers.pop(0)
        if isinstance(body, bytes):
            return web.Response(status=status, body=body, headers=headers)
        return web.json_response(body, status=status, headers=headers)


@asynccontextmanager
async def fake_transcriptions() -> AsyncIterator[FakeTranscriptions]:
    """The server, while the block runs; `url` is its base URL."""
    fake = FakeTranscriptions()
    async with serve(web.post("/v1/audio/transcriptions", fake.answer)) as address:
        fake.url = f"{address}/v1"
        yield fake

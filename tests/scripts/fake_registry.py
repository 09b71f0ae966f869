"""A registry of container images on loopback: manifests by tag, for whoever brings the token that it gives away."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

INDEX = "application/vnd.oci.image.index.v1+json"
TOKEN = "a-token-for-one-image"


@dataclass
class FakeRegistry:
    """What the registry has, how it misbehaves, and what was asked."""

    address: str = ""
    """Host and port."""
    manifests: dict[str, bytes] = field(default_factory=dict)
    """By `name:tag`."""
    realm: str = ""
    """Where it sends for tokens; empty: its own place."""
    media_type: str = INDEX
    said_digest: str = ""
    """In place of the true digest."""
    status: int = 0
    """In place of every manifest."""
    location: str = ""
    """Where it redirects to."""
    has_tokens: bool = True
    asked: list[str] = field(default_factory=list)
    scopes: list[str] = field(default_factory=list)

    def add(self, name: str, tag: str) -> str:
        """Give it an image; return the digest."""
        manifest = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "of": f"{name}:{tag}"}).encode()
        self.manifests[f"{name}:{tag}"] = manifest
        return f"sha256:{hashlib.sha256(manifest).hexdigest()}"


class Handler(BaseHTTPRequestHandler):
    """Answers for a registry; `open_registry` makes a class of it that has one."""

    registry: FakeRegistry

    def do_GET(self) -> None:
        self.registry.asked.append(self.path)
        parts = urlsplit(self.path)
        if parts.path == "/token":
            self._give_token(parse_qs(parts.query))
        elif self.headers.get("Authorization") == f"Bearer {TOKEN}":
            self._give_manifest(parts.path)
        else:
            realm = self.registry.realm or f"http://{self.registry.address}/token"
            self._answer(HTTPStatus.UNAUTHORIZED, b"", ("WWW-Authenticate", f'Bearer realm="{realm}",service="us"'))

    def _give_token(self, query: dict[str, list[str]]) -> None:
        self.registry.scopes += query["scope"]
        given = json.dumps({"token": TOKEN}) if self.registry.has_tokens else '{"errors": []}'
        self._answer(HTTPStatus.OK, given.encode(), ("Content-Type", "application/json"))

    def _give_manifest(self, path: str) -> None:
        name, _, tag = path.removeprefix("/v2/").partition("/manifests/")
        manifest = self.registry.manifests.get(f"{name}:{tag}")
        if self.registry.status:
            self._answer(self.registry.status, b"", ("Location", self.registry.location))
        elif manifest is None:
            self._answer(HTTPStatus.NOT_FOUND, b"{}")
        else:
            digest = self.registry.said_digest or f"sha256:{hashlib.sha256(manifest).hexdigest()}"
            kind = ("Content-Type", self.registry.media_type)
            self._answer(HTTPStatus.OK, manifest, kind, ("Docker-Content-Digest", digest))

    def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def open_registry() -> Iterator[FakeRegistry]:
    """Run a registry until the block ends."""
    registry = FakeRegistry()
    handler = type("Bound", (Handler,), {"registry": registry})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        registry.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()

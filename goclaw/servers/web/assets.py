"""The files of the page, as they are in `goclaw/web_ui`: compressed once, revalidated by their hash, and locked down.

Only what was in the folder when the daemon began is served: no path of a request reaches the file system.
"""

import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path

from aiohttp import hdrs, web

import goclaw
from goclaw.config.listening import WEB
from goclaw.core.records import record

FOLDER = Path(goclaw.__file__).parent / "web_ui"
INDEX = "index.html"
TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""Files of other kinds are not served."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types goclaw",
    )
)
"""Nothing from outside, nothing inline, no text becomes markup but by the page's one policy, no frame around it."""
DENIED = (
    "accelerometer",
    "autoplay",
    "camera",
    "display-capture",
    "encrypted-media",
    "geolocation",
    "gyroscope",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "publickey-credentials-get",
    "screen-wake-lock",
    "serial",
    "usb",
    "xr-spatial-tracking",
)
PAGE_HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{feature}=()" for feature in DENIED),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_GZIP = re.compile(r"(?:^|,)\s*(?:gzip|\*)\s*(?:;\s*q\s*=\s*(?:1|0?\.\d*[1-9]\d*|1\.0*)\s*)?(?:,|$)", re.IGNORECASE)


@record
class Asset:
    """A file of the page."""

    content: bytes
    """As it is sent: compressed, if that makes it smaller."""
    is_compressed: bool
    media_type: str
    tag: str
    """Its strong ETag, of the content before compression."""

    def answer(self, request: web.Request) -> web.Response:
        """Return the file, or that the browser has it already."""
        accepts = bool(_GZIP.search(request.headers.get(hdrs.ACCEPT_ENCODING, "")))
        # Two forms of one file are two things to a strong ETag (RFC 9110, 8.8.3.3).
        tag = f'"{self.tag}-gzip"' if self.is_compressed and accepts else f'"{self.tag}"'
        headers = {**PAGE_HEADERS, hdrs.ETAG: tag, hdrs.VARY: hdrs.ACCEPT_ENCODING}
        known = [each.strip().removeprefix("W/") for each in request.headers.get(hdrs.IF_NONE_MATCH, "").split(",")]
        if tag in known:
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        headers[hdrs.CONTENT_TYPE] = self.media_type
        if self.is_compressed and accepts:
            headers[hdrs.CONTENT_ENCODING] = "gzip"
            return web.Response(body=self.content, headers=headers)
        plain = gzip.decompress(self.content) if self.is_compressed else self.content
        return web.Response(body=plain, headers=headers)


class Assets:
    """The files that are served, by their paths below the folder."""

    def __init__(self, files: Mapping[str, Asset]) -> None:
        self._files = files

    @property
    def names(self) -> Iterable[str]:
        """Return the paths of the files."""
        return self._files.keys()

    async def index(self, request: web.Request) -> web.StreamResponse:
        """Answer `/`."""
        return self._answer(INDEX, request)

    async def file(self, request: web.Request) -> web.StreamResponse:
        """Answer `/web/<file>`."""
        return self._answer(request.path.removeprefix(WEB), request)

    def _answer(self, name: str, request: web.Request) -> web.Response:
        asset = self._files.get(name)
        return asset.answer(request) if asset else web.Response(status=HTTPStatus.NOT_FOUND, headers=PAGE_HEADERS)


def read_assets(folder: Path) -> Assets:
    """Read the files of the page. Takes a moment: not in the event loop."""
    files: dict[str, Asset] = {}
    for path in sorted(folder.rglob("*")):
        media_type = TYPES.get(path.suffix)
        if media_type and path.is_file() and not path.name.startswith("."):
            files[path.relative_to(folder).as_posix()] = _asset(path.read_bytes(), media_type)
    return Assets(files)


def _asset(content: bytes, media_type: str) -> Asset:
    small = gzip.compress(content, 9, mtime=0)
    is_compressed = len(small) < len(content)
    tag = hashlib.sha256(content).hexdigest()[:32]
    return Asset(small if is_compressed else content, is_compressed, media_type, tag)


ASSETS = read_assets(FOLDER)
"""Read while the module is loaded, which is in a thread."""

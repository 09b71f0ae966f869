"""The files of the page, as they are in `goclaw/clients/web_ui`: compressed once, kept by browsers, and locked down.

The index names styles and modules below a folder with the hash of all files (`/web/v-<hash>/app.js`): files there
never change, so a browser asks once. Relative imports stay in that folder. An open page of another version still gets
its modules, by their present content, and asks again each time; so it is with a path without a version.

Only files that were in the folder when the daemon began are served: no path of a request reaches the file system.
"""

import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path

from aiohttp import hdrs, web

import goclaw
from goclaw.common.config.listening import WEB
from goclaw.common.core.records import record

FOLDER = Path(goclaw.__file__).parent / "clients" / "web_ui"
INDEX = "index.html"
PLACE = b'<script id="here" type="application/json">'
"""Where the index takes data for its scripts. A block of data is run by no browser (HTML, 4.12.1)."""
VERSIONED = (".css", ".js")
"""Kinds of files that the index names by version. The manifest is known to browsers by its path."""
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
    "accelerometer autoplay camera display-capture encrypted-media geolocation gyroscope magnetometer microphone "
    "midi payment publickey-credentials-get screen-wake-lock serial usb xr-spatial-tracking"
)
REVALIDATED = "no-cache"
IMMUTABLE = "public, max-age=31536000, immutable"
"""A year, the longest that means something (RFC 9111, 5.2.2.1; RFC 8246)."""
PAGE_HEADERS: Mapping[str, str] = {
    "Cache-Control": REVALIDATED,
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{feature}=()" for feature in DENIED.split()),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_VERSION = re.compile(r"v-([0-9a-f]{16})/")
_NAMED = re.compile(rf'"{WEB}([^"]+)"')
"""A file that the index names."""
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

    def answer(self, request: web.Request, kept: str) -> web.Response:
        """Return the file, or that the browser has it already. `kept`: how long it may be kept (`Cache-Control`)."""
        accepts = bool(_GZIP.search(request.headers.get(hdrs.ACCEPT_ENCODING, "")))
        # Two forms of one file are two things to a strong ETag (RFC 9110, 8.8.3.3).
        tag = f'"{self.tag}-gzip"' if self.is_compressed and accepts else f'"{self.tag}"'
        headers = {**PAGE_HEADERS, hdrs.CACHE_CONTROL: kept, hdrs.ETAG: tag, hdrs.VARY: hdrs.ACCEPT_ENCODING}
        known = [each.strip().removeprefix("W/") for each in request.headers.get(hdrs.IF_NONE_MATCH, "").split(",")]
        if tag in known:
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        headers[hdrs.CONTENT_TYPE] = self.media_type
        if self.is_compressed and accepts:
            headers[hdrs.CONTENT_ENCODING] = "gzip"
            return web.Response(body=self.content, headers=headers)
        return web.Response(body=self.plain, headers=headers)

    @property
    def plain(self) -> bytes:
        """Return the file as it was."""
        return gzip.decompress(self.content) if self.is_compressed else self.content


class Assets:
    """The files that are served, by their paths below the folder."""

    def __init__(self, files: Mapping[str, Asset], version: str) -> None:
        """`version`: a hash of all files."""
        self._files = files
        self.version = version

    @property
    def names(self) -> Iterable[str]:
        """Return the paths of the files."""
        return self._files.keys()

    async def index(self, request: web.Request) -> web.StreamResponse:
        """Answer `/`."""
        return self._answer(INDEX, request)

    def filled_index(self, here: bytes) -> web.Response:
        """Return the index with data for its scripts, as JSON; it is for this browser and this moment alone."""
        # `<` is within strings alone, where it may be written so: then nothing of the data can end the element.
        content = self._files[INDEX].plain.replace(PLACE, PLACE + here.replace(b"<", b"\\u003c"), 1)
        headers = {**PAGE_HEADERS, hdrs.CACHE_CONTROL: "no-store", hdrs.CONTENT_TYPE: TYPES[".html"]}
        return web.Response(body=content, headers=headers)

    async def file(self, request: web.Request) -> web.StreamResponse:
        """Answer `/web/<file>` and `/web/v-<version>/<file>`."""
        name = request.path.removeprefix(WEB)
        version = _VERSION.match(name)
        if version is None:
            return self._answer(name, request)
        kept = IMMUTABLE if version[1] == self.version else REVALIDATED
        return self._answer(name[version.end() :], request, kept)

    def _answer(self, name: str, request: web.Request, kept: str = REVALIDATED) -> web.Response:
        asset = self._files.get(name)
        if asset is None:
            return web.Response(status=HTTPStatus.NOT_FOUND, headers=PAGE_HEADERS)
        return asset.answer(request, kept)


def read_assets(folder: Path) -> Assets:
    """Read the files of the page. Takes a moment: not in the event loop."""
    contents = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in TYPES and path.is_file() and not path.name.startswith(".")
    }
    found = hashlib.sha256()
    for name, content in contents.items():
        found.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(content).digest())
    version = found.hexdigest()[:16]
    if INDEX in contents:
        contents[INDEX] = _NAMED.sub(
            lambda found: f'"{WEB}v-{version}/{found[1]}"' if found[1].endswith(VERSIONED) else found[0],
            contents[INDEX].decode(),
        ).encode()
    return Assets({name: _asset(content, TYPES[Path(name).suffix]) for name, content in contents.items()}, version)


def _asset(content: bytes, media_type: str) -> Asset:
    small = gzip.compress(content, 9, mtime=0)
    is_compressed = len(small) < len(content)
    tag = hashlib.sha256(content).hexdigest()[:32]
    return Asset(small if is_compressed else content, is_compressed, media_type, tag)


ASSETS = read_assets(FOLDER)
"""Read while the module is loaded, which is in a thread."""

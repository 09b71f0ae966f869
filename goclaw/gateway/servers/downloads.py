"""Files as answers to a browser or a program: pictures that models see are shown, all else is a download.

Only the bytes of a file decide that, never its name or its stated type. An SVG or a page is never shown.
"""

import asyncio
from http import HTTPStatus
from urllib.parse import quote

from aiohttp import hdrs, web

from goclaw.common.core.pictures import fault_of
from goclaw.durable.store.blobs import image_type
from goclaw.gateway.servers.http import HEADERS

UNKNOWN_TYPE = "application/octet-stream"
_HEAD = {
    **HEADERS,
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    # A browser keeps it, and asks each time: it is not for those who are logged out, or may not read any more.
    "Cache-Control": "private, no-cache",
}


def unchanged(request: web.Request, key: str) -> web.Response | None:
    """Return the answer to a request that has the file with this key already; None: it has not."""
    tag = f'"{key}"'
    if tag not in request.headers.get(hdrs.IF_NONE_MATCH, ""):
        return None
    return web.Response(status=HTTPStatus.NOT_MODIFIED, headers={**_HEAD, hdrs.ETAG: tag})


async def file_response(data: bytes, path: str, key: str = "") -> web.Response:
    """Return a file as an answer.

    Args:
        data: all of it.
        path: its name for the person is the last part; empty: it has none.
        key: another one for each content; empty: it has none.
    """
    name = path.rpartition("/")[2] or "file"
    head = {**_HEAD, hdrs.ETAG: f'"{key}"'} if key else _HEAD
    mime = image_type(data)
    if mime is not None and not await asyncio.to_thread(fault_of, data, mime):
        return web.Response(body=data, headers={**head, "Content-Type": mime, "Content-Disposition": "inline"})
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    headers = {**head, "Content-Type": UNKNOWN_TYPE, "Content-Disposition": disposition}
    return web.Response(body=data, headers=headers)

"""The URIs of resources. Nothing here imports the library."""

from urllib.parse import parse_qs, quote, unquote, urlsplit

from goclaw.errors import GoclawError

FILE, TRANSCRIPT = "workspace", "transcript"
"""Schemes of files and of conversations."""
STATUS = "status://goclaw"


class Absent(GoclawError):
    """There is no such resource, or none for the actor."""


def file_uri(path: str) -> str:
    """Return the URI of a file of the workspace."""
    return f"{FILE}:///{quote(path)}"


def path_of(uri: str) -> str:
    """Return the path in the URI of a file, as the workspace takes it.

    Raises:
        Absent: the URI is not a file's.
    """
    parts = urlsplit(uri)
    path = unquote(parts.path).lstrip("/")
    if parts.netloc or parts.query or parts.fragment or not path or "\0" in path:
        raise Absent(f"there is no resource {uri[:200]}; a file's URI is {FILE}:///path")
    return path


def is_file(uri: str) -> bool:
    """Return whether the URI could be that of a file of the workspace."""
    if not uri.startswith(f"{FILE}:"):
        return False
    try:
        return ".." not in path_of(uri).split("/")
    except Absent:
        return False


def transcript_uri(session: str) -> str:
    """Return the URI of a conversation: its key has colons in it, which would be read as a port."""
    return f"{TRANSCRIPT}://{quote(session, safe='')}"


def session_of(uri: str) -> tuple[str, int | None]:
    """Return the key of the session in a URI (empty: none), and the row to read after."""
    parts = urlsplit(uri)
    after = parse_qs(parts.query).get("after", [""])[0]
    usable = after.isascii() and after.isdigit() and len(after) < 19
    key = unquote(parts.netloc) if parts.path in ("", "/") else ""
    return key if key.isprintable() else "", int(after) if usable else None

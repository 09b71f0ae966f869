"""Secrets that every daemon of a test is given, and the search for them in all that it leaves behind.

They are in its configuration and environment, and belong nowhere else: not in its logs, its database, what it prints,
what it sends to Telegram (but for the address) or to a model (but for the header).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from goclaw.common.core.redact import disguises

PROVIDER_KEY = "sk-canary-provider-0123456789abcdef"
PROXY_PASSWORD = "canary-password-of-the-proxy"
SERVER_KEY = "gsk_canary_without_a_known_shape"
EXEC_TOKEN = "canary-for-commands-0815-4711"
OTHER_KEY = "canary/of+another service=="
ENVIRONMENT = {
    "HTTPS_PROXY": f"http://canary:{PROXY_PASSWORD}@127.0.0.1:9",
    "UNUSED_SERVER_API_KEY": SERVER_KEY,
    "SOME_SERVICE_KEY": OTHER_KEY,
}
"""Nothing of it is used by a test: only https goes through that proxy."""
CANARIES = (PROVIDER_KEY, PROXY_PASSWORD, SERVER_KEY, EXEC_TOKEN, OTHER_KEY)
BELONGS = frozenset({"config.yaml", "secrets"})
"""Files and folders that may hold secrets."""
MOST_BYTES = 50_000_000


FORMATTED = {
    "bold": r"{0}**{1}**",
    "italic in the middle": r"{0[0]}*{0[1]}*{0[2]}{0[3]}{0[4]}{0[5]}{0[6]}{0[7]}{0[8]}{1}",
    "code": r"{0}`{1}`",
    "code before": r"`{0}`{1}",
    "crossed out": r"~~{0}~~{1}",
    "spoiler": r"{0}||{1}||",
    "link": r"[{0}](https://example.org/a_(b)){1}",
    "link to itself": r"[{0}](https://{0}){1}",
    "link in brackets": r"[{0}](<https://example.org/a>){1}",
    "escaped": r"{0}\-{2}",
    "by number": r"{0}&#45;{2}",
    "by number, in hex": r"{0}&#x2d;{2}",
    "escaped in a link": r"[here](https://example.org/?k={0}\-{2})",
    "two at once": r"**{0}**`&#45;`[{2}](https://example.org)",
    "coloured": "{0}\x1b[1m{1}",
    "with a NUL": "{0}\0{1}",
    "with what cannot be seen": "{0}\u200b{1}",
}
"""Ways to write a text in Markdown so that it is not in the source, and whole in what a chat or terminal shows."""


def formatted(secret: str) -> dict[str, str]:
    """The secret (nine characters, a hyphen, and more) in each of these ways."""
    return {way: form.format(secret[:9], secret[9:], secret[10:]) for way, form in FORMATTED.items()}


def found_in(content: bytes, canaries: Iterable[str] = CANARIES) -> list[str]:
    """The canaries in some bytes, as they are or in another form."""
    return [canary for canary in canaries if any(form.encode() in content for form in (canary, *disguises(canary)))]


def found_below(folder: Path, canaries: Iterable[str] = CANARIES) -> Iterator[str]:
    """A line for each file below a folder that holds a canary and should not."""
    canaries = tuple(canaries)
    for path in sorted(folder.rglob("*")):
        if BELONGS.intersection(path.relative_to(folder).parts) or path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size <= MOST_BYTES and (found := found_in(path.read_bytes(), canaries)):
            yield f"{path.relative_to(folder)}: {', '.join(found)}"


def check(folder: Path, *said: Any, token: str = "") -> None:
    """Fail if a canary is below a folder, or in what was said (anything that JSON can hold)."""
    canaries = (*CANARIES, *filter(None, [token]))
    found = [*found_below(folder, canaries)]
    for number, each in enumerate(said):
        found += [f"what was sent, {number}: {canary}" for canary in found_in(_in_json(each), canaries)]
    assert found == [], found


def _in_json(said: Any) -> bytes:
    return json.dumps(said, default=_plain, ensure_ascii=False).encode(errors="replace")


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)

"""Access tokens: with one a terminal connects over TCP, as one user of users.json. Only their hashes are kept.

A token is an identity and no bag of rights: the rights of its user are looked up at every use. The file is watched; a
change is in force within two seconds, and a new token immediately. A file that is broken, or that others can read,
admits no client.

A device is a token, too: the secret that a browser has as its cookie. It is of no use anywhere else, and ends with the
token that it was made with.
"""

import asyncio
import hashlib
import hmac
import json
import logging
import math
import os
import re
import secrets
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from goclaw.common.core.clock import Clock
from goclaw.common.core.files import FileLook, Writer, file_version, lock_folder, replace_file, shown_path
from goclaw.common.core.supervise import background
from goclaw.errors import ConfigError, StateError

log = logging.getLogger(__name__)

TOKEN_BYTES = 32
"""256 random bits: they cannot be guessed, so a plain hash keeps them."""
MARK = "goclaw_"
"""Tokens begin with it, so that people and programs that look for lost secrets know one."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
MAX_TOKENS = 1_000
MAX_FILE_BYTES = 1_000_000
LOOK_SECONDS = 0.8
"""Between two looks at the file, as for users.json."""
CATCH_UP_SECONDS = 0.2
"""Between two looks at what other processes have, because of tokens that are unknown here."""
DEVICE = "web-"
"""Names of devices begin with it."""
MAX_DEVICES = 20
"""Devices of one user; a further one takes the place of the oldest."""


class Token(BaseModel):
    """A stored token."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    user: Annotated[str, Field(min_length=3, max_length=300)]
    """A key of users.json."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    made: float
    """Epoch seconds, as `until`."""
    until: float | None = None
    """Expiry; None: never."""
    device: Annotated[str, Field(max_length=100)] = ""
    """The browser that has it as a cookie, for people; empty: it is no device's."""
    owner: bool = False
    """Whether a device acts as the owner of the state folder."""
    parent: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Hash of the token that a device was made with, and ends with."""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    tokens: Annotated[dict[str, Token], Field(max_length=MAX_TOKENS)]


class Tokens:
    """The tokens as of now. Ask again at every use."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._tokens: Mapping[str, Token] = {}
        self._ends: Mapping[str, float | None] = {}
        """When each token ends, by its hash: those that devices were made with are among them."""
        self._seen: tuple[int, ...] = ()
        """Fingerprint of the version of the file last read."""
        self.fetch: Callable[[], Awaitable[None]] | None = None
        """Fetches what other processes have changed, where several share the file; may raise `StateError`."""
        self._catching_up = asyncio.Lock()
        self._caught_up = -math.inf
        """When that was last, monotonic."""
        self.problem = ""
        """The reason why the file cannot be used: no client is admitted meanwhile."""

    def find(self, secret: str) -> str:
        """Return the name of the valid token with this secret; else empty. Takes the same time for every answer."""
        digest, found = digest_of(secret), ""
        for name, token in self._tokens.items():
            if hmac.compare_digest(token.sha256, digest):
                found = name
        return found if found and not self._is_over(self._tokens[found]) else ""

    async def find_new(self, secret: str) -> str:
        """Find a token as `find`; read the file again for an unknown one, if it has changed since the last look.

        So a new token works immediately, and guessing costs no more than a look at a name. Where processes share the
        file, another one may have made the token a moment ago: the browser that was let in there asks here next.
        """
        if found := self.find(secret):
            return found
        await self._catch_up()
        if await asyncio.to_thread(file_version, self._path) != self._seen:
            await self.refresh()
        # Also where nothing has changed now: a simultaneous request may have read it meanwhile.
        return self.find(secret)

    def any(self) -> bool:
        """Whether there is one at all."""
        return bool(self._tokens)

    def get(self, name: str) -> Token | None:
        """Return the stored token with this name."""
        return self._tokens.get(name)

    def devices(self, user: str) -> Mapping[str, Token]:
        """Return a user's valid devices by name, the oldest first."""
        found = [each for each in self._tokens.items() if each[1].device and each[1].user == user]
        return {name: token for name, token in sorted(found, key=_age) if not self._is_over(token)}

    def objection(self, name: str, token: Token) -> str:
        """Return why a client with this token may not stay; empty: it may."""
        known = self._tokens.get(name)
        if known is None or known.sha256 != token.sha256:
            return f"the token {name} was revoked"
        if known.user != token.user:
            return f"the token {name} now belongs to another user"
        return f"the token {name} has expired" if self._is_over(known) else ""

    async def _catch_up(self) -> None:
        """Get what other processes have changed, not too often: anyone may ask with an invalid token."""
        if self.fetch is None:
            return
        async with self._catching_up:
            if self._clock.monotonic() - self._caught_up < CATCH_UP_SECONDS:
                return
            with suppress(StateError):  # then it is as unknown as any other
                await self.fetch()
            self._caught_up = self._clock.monotonic()

    async def refresh(self) -> None:
        """Look at the file now."""
        # Before the reading: a version that comes in between is read twice rather than missed. It counts as seen after
        # it: until then a simultaneous request with a new token has to look for that, too.
        seen = await asyncio.to_thread(file_version, self._path)
        try:
            self._tokens, problem = await asyncio.to_thread(read_tokens, self._path), ""
        except ConfigError as error:
            self._tokens, problem = {}, "; ".join(error.problems)
        self._ends = {token.sha256: token.until for token in self._tokens.values()}
        self._seen = seen
        if problem and problem != self.problem:
            log.error("no access token is valid: %s", problem)
        self.problem = problem

    def _is_over(self, token: Token) -> bool:
        now = self._clock.now()
        if token.until is not None and now >= token.until:
            return True
        if token.parent is None:
            return False
        until = self._ends.get(token.parent, 0.0)
        return until is not None and now >= until


@asynccontextmanager
async def open_tokens(path: Path, clock: Clock) -> AsyncIterator[Tokens]:
    """Open the tokens, kept up to date with the file at `path` until the block ends."""
    tokens = Tokens(path, clock)
    await tokens.refresh()
    async with background(_watch(tokens, path, clock), "access tokens watcher"):
        yield tokens


async def _watch(tokens: Tokens, path: Path, clock: Clock) -> None:
    look = FileLook(path)
    while True:
        await clock.sleep(LOOK_SECONDS)
        if look.is_due():
            await tokens.refresh()
        if tokens.problem:
            look.forget()  # what cannot be read now (no descriptor is free, say) may be later, without a change


def digest_of(secret: str) -> str:
    """Return the hash that is stored instead of a token."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def read_tokens(path: Path) -> Mapping[str, Token]:
    """Read the stored tokens by name; empty without a file.

    Raises:
        ConfigError: the file cannot be used.
    """
    shown = shown_path(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{shown}: is not a file written by `goclaw token`")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise ConfigError(f"{shown}: others can read or change it; `chmod 600` it")
        content = file.read(MAX_FILE_BYTES)
    return check_tokens(content, path)


def check_tokens(content: bytes, path: Path) -> Mapping[str, Token]:
    """Return the tokens in what is, or is to become, the file at `path`.

    Raises:
        ConfigError: it cannot be used.
    """
    try:
        return _File.model_validate_json(content).tokens
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"])
        raise ConfigError(
            f"{shown_path(path)}: {where or 'the file'} is broken; fix it, or remove the file and create new tokens"
        ) from None


def add_token(
    path: Path, name: str, user: str, now: float, until: float | None = None, writer: Writer = lock_folder
) -> str:
    """Make a token; returns it. It cannot be had a second time. `writer`: changes the file.

    Raises:
        ConfigError: the name cannot be used or is taken, or the file cannot be written.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(f"{name!r}: a token's name may have up to 64 letters, digits, `.`, `_` and `-`")
    secret = MARK + secrets.token_urlsafe(TOKEN_BYTES)

    def add(tokens: dict[str, Token]) -> None:
        if name in tokens:
            raise ConfigError(f"there is already a token {name}; `goclaw token revoke {name}` revokes it")
        if len(tokens) >= MAX_TOKENS:
            raise ConfigError(f"there are already {MAX_TOKENS} tokens; revoke unused ones")
        tokens[name] = Token(user=user, sha256=digest_of(secret), made=now, until=until)

    _change(path, writer, add)
    return secret


def add_device(
    path: Path,
    user: str,
    device: str,
    now: float,
    until: float,
    *,
    owner: bool = False,
    parent: str | None = None,
    writer: Writer = lock_folder,
) -> tuple[str, str]:
    """Make the token of a browser; returns its name and itself. Devices that are over make room.

    `parent`: the hash of the token that it is made with. `writer`: changes the file.

    Raises:
        ConfigError: the file cannot be written, or is full.
    """
    secret = MARK + secrets.token_urlsafe(TOKEN_BYTES)
    name = ""

    def add(tokens: dict[str, Token]) -> None:
        nonlocal name
        name = next(each for each in iter(lambda: f"{DEVICE}{secrets.token_hex(4)}", "") if each not in tokens)
        for old, each in list(tokens.items()):
            if each.device and each.until is not None and each.until <= now:
                del tokens[old]
        own = sorted((each for each in tokens.items() if each[1].device and each[1].user == user), key=_age)
        for old, _ in own[: max(0, len(own) - MAX_DEVICES + 1)]:
            del tokens[old]
        if len(tokens) >= MAX_TOKENS:
            raise ConfigError(f"there are already {MAX_TOKENS} tokens; revoke unused ones")
        tokens[name] = Token(
            user=user, sha256=digest_of(secret), made=now, until=until, device=device, owner=owner, parent=parent
        )

    _change(path, writer, add)
    return name, secret


def _age(named: tuple[str, Token]) -> tuple[float, str]:
    name, token = named
    return token.made, name


def revoke_token(path: Path, name: str, writer: Writer = lock_folder) -> None:
    """End a token, and the devices that were made with it. `writer`: changes the file.

    Raises:
        ConfigError: no token has this name, or the file cannot be written.
    """

    def remove(tokens: dict[str, Token]) -> None:
        if (gone := tokens.pop(name, None)) is None:
            raise ConfigError(f"there is no token {name}; `goclaw token list` shows all tokens")
        for child in [key for key, token in tokens.items() if token.parent == gone.sha256]:
            del tokens[child]

    _change(path, writer, remove)


def _change(path: Path, writer: Writer, change: Callable[[dict[str, Token]], None]) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with writer(path):
            tokens = dict(read_tokens(path))
            change(tokens)
            kept = {name: token.model_dump(exclude_defaults=True) for name, token in tokens.items()}
            replace_file(path, json.dumps({"tokens": kept}, indent=2) + "\n")
    except OSError as error:
        raise ConfigError(f"{shown_path(path)}: cannot be written: {error.strerror}") from None
    except StateError as error:
        raise ConfigError(f"{shown_path(path)}: {error}") from error

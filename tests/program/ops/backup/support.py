"""A state folder with something of everything in it, and archives that no backup would be."""

import asyncio
import gzip
import hashlib
import io
import json
import sqlite3
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from goclaw.common.config.load import Loaded, load_config
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Actor, Address, Delivery, Inbound
from goclaw.common.core.messages import AssistantMessage, Image, UserMessage
from goclaw.durable.store.blobs import open_blobs
from goclaw.durable.store.database import BoundStatement, Database
from goclaw.durable.store.open import open_database
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of
from goclaw.program.ops.backup.collect import Made, back_up
from goclaw.program.ops.backup.restore import Restored, RestoreSelection, restore
from tests.parts import sql

ANN = Actor("telegram:5", "telegram", name="Ann")
SESSION = "telegram:5"
TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0"
NOTHING: Mapping[str, Any] = {}
_INBOUND: Codec[Inbound] = Codec(Inbound)
_DELIVERY: Codec[Delivery] = Codec(Delivery)


@dataclass
class Home:
    """One installation below a folder; no daemon runs on it."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    clock: SteppedClock = field(default_factory=SteppedClock)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def workspace(self) -> Path:
        return self.loaded().config.workspace_path

    @property
    def database(self) -> Path:
        return self.state / "goclaw.db"

    def configure(self, **settings: Any) -> None:
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.state / "config.yaml").write_text(yaml.safe_dump(settings))

    def add_users(self, users: Mapping[str, Mapping[str, Any]]) -> None:
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.state / "users.json").write_text(json.dumps({"users": users}))

    def loaded(self, config: Path | None = None, secrets: Path | None = None) -> Loaded:
        environ = {"GOCLAW_STATE_DIR": str(self.state), **self.environ}
        packaged = load_config(environ=environ).packaged if config else None
        return load_config(
            config, environ=environ, container_secrets=secrets or self.folder / "none", packaged=packaged
        )

    def back_up(self, name: str = "backup.tar.gz", **options: bool) -> Made:
        return back_up(self.loaded(), self.folder / name, self.clock, **options)

    def restore(self, archive: Path | None = None, **wanted: Any) -> Restored:
        self.clock.advance(60)

        def reload(config: Path, secrets: Path) -> Config:
            return self.loaded(config, secrets).config

        archive = archive or self.folder / "backup.tar.gz"
        return restore(self.loaded(), archive, self.clock, reload, RestoreSelection(**wanted))

    def say(self, *texts: str, session: str = SESSION, picture: bytes = b"") -> None:
        """Keep a question and an answer to each, as turns do."""
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        asyncio.run(self._say(texts, session, picture))

    async def _say(self, texts: Sequence[str], session: str, picture: bytes) -> None:
        images: tuple[Image, ...] = ()
        if picture:
            async with open_blobs(self.state / "blobs", self.clock) as blobs:
                images = (Image(await blobs.put(picture, "image/png"), "image/png"),)
        async with open_database(self.database) as database:
            for text in texts:
                origin = Origin(session, f"turn:{text}", "user", self.clock.now(), ANN.key)
                start = Transcripts(database).ensure_session(session, self.clock.now())
                await database.write(start, *rows_of(UserMessage(text, images), origin))
                await database.write(*rows_of(AssistantMessage(f"Answer to {text}"), origin))

    def write(self, *statements: BoundStatement) -> None:
        asyncio.run(self._write(statements))

    async def _write(self, statements: Sequence[BoundStatement]) -> None:
        async with open_database(self.database) as database:
            await database.write(*statements)

    def texts(self, session: str = SESSION) -> list[str]:
        """What the store shows of a conversation."""
        return asyncio.run(self._texts(session))

    async def _texts(self, session: str) -> list[str]:
        async with open_database(self.database) as database:
            return await transcript(database, session)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(query, values).fetchall()


async def transcript(database: Database, session: str = SESSION) -> list[str]:
    found = await Transcripts(database).history(session, 0, 1_000)
    return [stored.message.text for stored in found if isinstance(stored.message, UserMessage | AssistantMessage)]


def taken_in(number: int, text: str, state: str, session: str = SESSION) -> BoundStatement:
    """The row of a message that came in."""
    inbound = Inbound(f"telegram:{number}", ANN, session, text, Address("telegram", "5"), 1_750_000_000.0)
    ended = 2.0 if state == "done" else None
    return sql(
        "INSERT INTO inbox (id, session, kind, body, state, received_at, ended_at) "
        "VALUES (:id, :session, 'message', :body, :state, 1, :ended)",
        id=inbound.id,
        session=session,
        body=_INBOUND.to_json(inbound),
        state=state,
        ended=ended,
    )


def promised(name: str, state: str) -> BoundStatement:
    """The row of a delivery."""
    delivery = Delivery(name, Address("telegram", "5"), f"Text of {name}")
    return sql(
        "INSERT INTO deliveries (id, channel, chat, body, state, created_at) VALUES (:i, 'telegram', '5', :b, :s, 1)",
        i=name,
        b=_DELIVERY.to_json(delivery),
        s=state,
    )


def step(turn: str, state: str) -> BoundStatement:
    """The row of a step."""
    return sql("INSERT INTO steps (turn, name, state) VALUES (:t, 'tool:1:a', :s)", t=turn, s=state)


def archive_of(
    path: Path, members: Sequence[tuple[tarfile.TarInfo, bytes]], manifest: Mapping[str, Any] = NOTHING
) -> Path:
    """An archive of these members with a manifest that fits them, unless `manifest` says otherwise."""
    listed = {
        info.name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for info, content in members
        if info.isreg()
    }
    text = {"made_at": 1.0, "schema": 1, "members": listed, **manifest}
    content = json.dumps(text).encode()
    with gzip.open(path, "wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in (*members, (plain("manifest.json", content), content)):
            tar.addfile(info, io.BytesIO(data))
    return path


def plain(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    """A member's header."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, len(content)
    return info


def members_of(path: Path) -> dict[str, bytes]:
    """The files of an archive."""
    with tarfile.open(path) as tar:
        return {info.name: (tar.extractfile(info) or io.BytesIO()).read() for info in tar if info.isreg()}


def tree(folder: Path) -> dict[str, bytes | str]:
    """Every file below a folder with its content, links with their target."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }

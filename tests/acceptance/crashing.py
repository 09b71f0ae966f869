"""`python -m tests.acceptance.crashing … gateway`: the very same daemon, which kills itself with SIGKILL when told to.

Nothing in the product knows of this. What the daemon stands on is wrapped before it begins: `sqlite3.connect` (every
statement and commit of its database; of Postgres, where a group is sent and committed), aiohttp's session (every call
of the Bot API and of a model), the tools, and a few methods of its own. Each wrap says the name of the point that the
daemon passes; `Trigger` kills it at the k-th passing of the one that is armed. The names, with what they mean:
`crash_points`.

The trigger is a file, named in the environment, so that one may be armed while the daemon runs: `NAME K`.
"""

import asyncio
import os
import re
import signal
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import aiohttp
import orjson

from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.program.cli.program import main
from goclaw.tools.toolkit.base import Tool
from tests.acceptance.model import END

TRIGGER = "CRASH_TRIGGER"
"""The environment variable that names the file; it has no prefix of ours, which would make it a setting."""
DATABASE = "goclaw.db"
ON_ITS_WAY = 0.02
"""Seconds after which a request that was begun has reached the fake, though its answer may take long."""
AFTER, BEFORE = "after", "before"

_EVENTS: Mapping[tuple[str, str, str], str] = {
    ("INSERT", "inbox", "new"): "inbox",
    ("INSERT", "inbox", "next"): "interrupt",
    ("INSERT", "inbox", "done"): "settled",
    ("UPDATE", "inbox", "stopping"): "stop",
    ("UPDATE", "inbox", "done"): "end",
    ("INSERT", "steps", "intent"): "intent",
    ("INSERT", "steps", "parked"): "question",
    ("UPDATE", "steps", "done"): "answered",
    ("INSERT", "deliveries", ""): "promise",
    ("INSERT", "compactions", ""): "compaction",
}
"""What is said by verb, table and the state that a row gets."""
_METHODS: Mapping[str, str] = {
    "turn": "goclaw.conversation.turns.service:Sessions.run",
    "preview intent": "goclaw.channels.telegram.live_message_ids:LiveMessageIds.intend",
    "remember": "goclaw.channels.telegram.live_message_ids:LiveMessageIds.remember",
    "shutdown turns": "goclaw.durable.engine.lanes:Lanes.idle",
    "shutdown flush": "goclaw.durable.engine.outbox:Outbox.flush",
    "shutdown lanes": "goclaw.durable.engine.lanes:Lanes.close",
    "shutdown outbox": "goclaw.durable.engine.outbox:Outbox.close",
}
"""Methods of the product that are points by themselves. One that is gone stops the launcher: name its successor."""


class Trigger:
    """Kills this process when the armed point is passed for the k-th time since it was armed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._armed = ""
        self._passed = 0

    def passing(self, name: str) -> None:
        """The daemon is at the point `name`; this may not return."""
        try:
            armed = self._path.read_text()
        except FileNotFoundError:
            return
        if armed != self._armed:
            self._armed, self._passed = armed, 0
        wanted, _, count = armed.rpartition(" ")
        if name != wanted:
            return
        self._passed += 1
        if self._passed >= int(count):
            self._path.replace(self._path.with_suffix(".hit"))
            os.kill(os.getpid(), signal.SIGKILL)


def event(sql: str, values: Any) -> str:
    """What a statement does to the promises, in the words of `crash_points`; empty for all others."""
    verb, table = _verb_and_table(sql)
    state = _state(sql, values)
    if (verb, table, state) == ("INSERT", "steps", "done"):
        return f"step {_step(str(values['name']))}"
    if (verb, table) == ("UPDATE", "deliveries"):
        return "arrived" if re.search(r"\bprogress\s*=", sql) else state
    return _EVENTS.get((verb, table, state)) or _EVENTS.get((verb, table, ""), "")


def _verb_and_table(sql: str) -> tuple[str, str]:
    found = re.match(r"\s*(INSERT|UPDATE|DELETE)\s+(?:OR\s+\w+\s+)?(?:INTO\s+|FROM\s+)?\"?(\w+)", sql, re.IGNORECASE)
    return (found[1].upper(), found[2]) if found else ("", "")


def _state(sql: str, values: Any) -> str:
    """The state that a row gets; empty when the statement says nothing of one."""
    if not isinstance(values, dict):
        return ""
    if found := re.search(r"\bSET\b.*?\bstate\s*=\s*(?::|%\()(\w+)", sql, re.IGNORECASE | re.DOTALL):
        return str(values.get(found[1], ""))
    return str(values.get("state", "")) if re.match(r"\s*INSERT", sql, re.IGNORECASE) else ""


def _step(name: str) -> str:
    """The kind of a step: its name without what differs from turn to turn."""
    kind, _, rest = name.partition(":")
    return f"{kind}:{rest}" if kind == "model" else kind


def wrap_database(trigger: Trigger) -> None:
    """`X before`: X is written and not committed. `X after`: committed, and nobody knows yet."""
    connect = sqlite3.connect

    class Connection(sqlite3.Connection):
        """A connection that says what it writes."""

        written: list[str]

        def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
            cursor = super().execute(sql, values)
            if sql.startswith("BEGIN"):
                self.written = []
            elif sql == "COMMIT":
                for name in self.written:
                    trigger.passing(f"{name} {AFTER}")
            elif cursor.rowcount > 0 and (name := event(sql, values)):
                self.written.append(name)
                trigger.passing(f"{name} {BEFORE}")
            return cursor

    def connected(database: Any, *args: Any, **options: Any) -> sqlite3.Connection:
        if DATABASE in str(database):
            options.setdefault("factory", Connection)
        made: sqlite3.Connection = connect(database, *args, **options)
        if isinstance(made, Connection):
            made.written = []
        return made

    sqlite3.connect = connected  # type: ignore[assignment]  # the overloads of the stub say the same


def wrap_postgres(trigger: Trigger) -> None:
    """The same points as `wrap_database`, where the database is a schema of Postgres."""
    from goclaw.durable.store.postgres import database, sending  # a daemon on SQLite has no driver of Postgres

    room: Any = database
    sent, result, at_once = room.send, room.result_of, room.PostgresDatabase._at_once
    names: dict[int, str] = {}
    written: list[str] = []

    async def watched_sent(writer: Any, transaction: Any) -> Any:
        cursors = await sent(writer, transaction)
        for cursor, statement in zip(cursors, transaction.statements, strict=True):
            sql, values = sending.bind(statement)
            names[id(cursor)] = event(sql.decode(), values)
        return cursors

    async def watched_result(cursor: Any) -> Any:
        found = await result(cursor)
        if found.rowcount > 0 and (name := names.pop(id(cursor), "")):
            written.append(name)
            trigger.passing(f"{name} {BEFORE}")
        return found

    async def watched_group(self: Any, group: Any) -> Any:
        names.clear()
        written.clear()
        results = await at_once(self, group)
        for name in written:
            trigger.passing(f"{name} {AFTER}")
        return results

    room.send, room.result_of, room.PostgresDatabase._at_once = watched_sent, watched_result, watched_group


def wrap_network(trigger: Trigger) -> None:
    """`X before`: the request has not left. `X accepted`: the other side has done it, and the daemon does not know."""
    session: Any = aiohttp.ClientSession
    request = session._request

    async def watched(self: Any, method: str, url: Any, **options: Any) -> Any:
        name = call_of(str(url), options.get("data"))
        if name == "acknowledge":
            trigger.passing(f"{name} {BEFORE}")
            asyncio.get_running_loop().call_later(ON_ITS_WAY, trigger.passing, f"{name} {AFTER}")
        elif name and name != "poll":
            trigger.passing(f"{name} {BEFORE}")
        response = await request(self, method, url, **options)
        if name in ("poll", "acknowledge"):
            if orjson.loads(await response.read() or b"{}").get("result"):
                trigger.passing("poll answered")
        elif name and response.status == 200:
            trigger.passing(f"{name} accepted")
        return response

    session._request = watched


def call_of(url: str, data: Any) -> str:
    """What a request is about: a call of the Bot API, or a question to the model; empty for any other."""
    if url.endswith("/chat/completions"):
        return "model"
    method = url.rpartition("/")[2]
    form = data if isinstance(data, dict) else {}
    match method:
        case "getUpdates":
            return "acknowledge" if "offset" in form else "poll"
        case "sendMessage":
            return _message(str(form.get("chat_id", "")), str(form.get("text", "")))
        case "sendMessageDraft":
            return "draft"
        case "editMessageText":
            return "edit"
        case "sendDocument" | "sendPhoto":
            return "file"
    return ""


def _message(chat: str, text: str) -> str:
    """A preview that grows in a group, a part of a long answer, or a whole message."""
    if END in text or ("answer" not in text and " line " not in text):
        return "send"
    return "preview" if chat.startswith("-") else "part"


def wrap_tools(trigger: Trigger) -> None:
    """`TOOL before`: nothing is done. `TOOL after`: its effect is there, and not recorded."""
    for name, path in catalog.TOOLS.items():
        module, _, attribute = path.partition(":")
        tool = load(path, Tool)
        watched = replace(tool, run=_around(trigger, name, tool.run))
        setattr(resolve_name(module), attribute, watched)


def wrap_methods(trigger: Trigger) -> None:
    """`X before` and `X after` a method, where the daemon itself is the boundary."""
    for name, path in _METHODS.items():
        owner, _, method = path.rpartition(".")
        room = resolve_name(owner)
        setattr(room, method, _around(trigger, name, getattr(room, method)))


def _around(trigger: Trigger, name: str, run: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def watched(*args: Any, **options: Any) -> Any:
        trigger.passing(f"{name} {BEFORE}")
        result = await run(*args, **options)
        trigger.passing(f"{name} {AFTER}")
        return result

    return watched


def wrap(path: Path, wrap_store: Callable[[Trigger], None] = wrap_database) -> None:
    """Everything, with the trigger at `path`."""
    trigger = Trigger(path)
    for each in (wrap_store, wrap_network, wrap_tools, wrap_methods):
        each(trigger)


if __name__ == "__main__":
    wrap(Path(os.environ[TRIGGER]))
    main()

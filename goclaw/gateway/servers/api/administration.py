"""For admins: the log, the users, and the configuration."""

import asyncio
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from pydantic import Field

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.config.changing import CHANGEABLE, change
from goclaw.common.config.document import all_shown
from goclaw.common.core.redact import mask
from goclaw.common.core.wire import MAX_NAME
from goclaw.common.health.log_reading import LogLevel, last_lines, line_filter, record_of
from goclaw.common.health.logs import log_path
from goclaw.errors import ToolError
from goclaw.gateway.servers.api.operations import Call, NoFields, Operations, Request, Response
from goclaw.gateway.servers.api.problems import Problem, unavailable

MAX_LINES = 1_000
DotKey = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.:-]+$")]


class LogAsked(Request):
    """The fields of `getLog`."""

    lines: Annotated[int, Field(ge=1, le=MAX_LINES, description="How many records, counted from the end.")] = 100
    level: Annotated[LogLevel, Field(description="Only records of at least this level.")] = LogLevel.INFO
    session: Annotated[str, Field(max_length=MAX_NAME, description="Only records about this session; empty: all.")] = ""
    turn: Annotated[
        str, Field(max_length=MAX_NAME, description="Only records about this turn; the end of its id is enough.")
    ] = ""


class Log(Response):
    """The newest records of the log, oldest first."""

    records: Sequence[dict[str, Any]] = Field(
        description="`timestamp`, `level`, `event`, `logger` and any other fields of the record; secrets are masked."
    )


class ListedUser(Response):
    """A user of users.json."""

    key: str
    name: str
    roles: Sequence[str]
    allowed_tools: Sequence[str] | None = Field(description="A selection; null: every tool.")
    groups: bool = Field(description="Whether the user may speak in groups.")
    timezone: str
    quiet_hours: str


class UserList(Response):
    """The users, in the order of the file."""

    users: Sequence[ListedUser]


class Settings(Response):
    """The configuration in force."""

    values: Sequence[str] = Field(description="`key: value` with the value as JSON; secrets are hidden.")
    changeable: Sequence[str] = Field(description="Keys that `changeSetting` accepts.")


class SettingAsked(Request):
    """The fields of `changeSetting`."""

    key: DotKey
    value: Annotated[bool | int | float | str, Field(description="The new value.")]


class Changed(Response):
    """A setting that was changed."""

    key: str
    value: bool | int | float | str
    restart: bool = Field(True, description="It takes effect when the daemon restarts.")


OPERATIONS = Operations()


@OPERATIONS.add("GET", "/logs", "administration", admins_only=True)
async def get_log(call: Call, asked: LogAsked) -> Log:
    """Read the newest records of the log"""
    path = log_path(call.ports.config)

    def read() -> Iterator[dict[str, Any]]:
        wanted = line_filter(asked.turn, asked.session, asked.level)
        with path.open("rb") as file:
            newest = (line.rstrip(b"\n") for line in file)
            found = last_lines(path, newest, asked.lines, wanted)
        for line in found:
            # What is written is masked already; a secret that has become known since is masked now.
            if record := record_of(mask(line.decode(errors="replace")).encode()):
                yield record

    try:
        return Log(records=await asyncio.to_thread(lambda: list(read())))
    except FileNotFoundError:
        return Log(records=[])
    except OSError as error:
        raise unavailable(f"the log cannot be read: {error.strerror}") from None


@OPERATIONS.add("GET", "/users", "administration", admins_only=True)
async def list_users(call: Call, _: NoFields) -> UserList:
    """List the users"""
    users = [
        ListedUser(
            key=user.key,
            name=user.name,
            roles=sorted(user.roles),
            allowed_tools=None if user.allowed_tools is None else sorted(user.allowed_tools),
            groups=user.groups,
            timezone=user.timezone,
            quiet_hours=user.quiet_hours,
        )
        for user in call.ports.users.all()
    ]
    return UserList(users=users)


@OPERATIONS.add("GET", "/config", "administration", admins_only=True)
async def get_config(call: Call, _: NoFields) -> Settings:
    """Read the configuration in force, secrets hidden"""
    values = await asyncio.to_thread(all_shown, call.ports.config)
    return Settings(values=values, changeable=CHANGEABLE)


@OPERATIONS.add("PATCH", "/config", "administration", refusals=(HTTPStatus.CONFLICT,), admins_only=True)
async def change_setting(call: Call, asked: SettingAsked) -> Changed:
    """Change a setting that grants no rights and costs nothing; change all others in the file"""
    file = call.ports.config_file
    try:
        if file is None:
            raise ToolError("nothing was changed: the daemon runs without a configuration file that could be changed")
        await asyncio.to_thread(change, file, asked.key, asked.value)
    except ToolError as error:
        raise Problem(HTTPStatus.CONFLICT, str(error), field="key") from None
    call.ports.audit(AuditEntry("config.change", asked.key, call.actor, rule="admin", result="ok"))
    return Changed(key=asked.key, value=asked.value)

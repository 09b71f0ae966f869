"""The kinds of value that the schema is made of, with the checks that go with them. Messages never repeat a value.

Reactions are listed here, not taken from Telegram's library: every command reads settings, and that takes 130 ms to
import.
"""

import os
import re
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from unicodedata import category
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, SecretStr, Tag, WithJsonSchema

from goclaw.common.config.section import Section
from goclaw.common.core.records import record
from goclaw.common.core.selection import find_fault

_MAX_PATH, _MAX_NAME = 4095, 255
"""Bytes of a path and of each name in it (PATH_MAX with its end, NAME_MAX of Linux)."""
DEFAULT_SCHEMA = "goclaw"
"""The schema of Postgres that the tables are in, where `store` names none."""
_SCHEMA = re.compile("[a-z_][a-z0-9_]{0,62}")
_LOADED = re.compile("LD_PRELOAD|LD_AUDIT|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS4|IFS")
"""Variables that make every command run something else first: no use of them is honest in a configuration."""

_DURATION = re.compile(
    r"(?:([0-9]{1,9})d)? ?(?:([0-9]{1,9})h)? ?(?:([0-9]{1,9})m)? ?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)s)?"
)
_NO_DURATION = "should be a time such as `45s`, `2m` or `1h30m`, or a number of seconds"


def require_that(holds: Callable[[Any], object], problem: str) -> AfterValidator:
    """Return the check that `holds` is true of a value; `problem` is the error otherwise."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError(problem)
        return value

    return AfterValidator(check)


def require(pattern: str, problem: str) -> AfterValidator:
    """Return the check that a text or a secret has this form; `problem` is the error otherwise."""
    return require_that(
        lambda value: re.fullmatch(pattern, value.get_secret_value() if isinstance(value, SecretStr) else value),
        problem,
    )


def require_names(pattern: str, problem: str) -> AfterValidator:
    """Return the check that the keys of a mapping have this form; `problem` is the error otherwise."""
    return require_that(lambda value: all(re.fullmatch(pattern, name) for name in value), problem)


def _split(value: object) -> object:
    if not isinstance(value, str) or value == "auto":
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


def is_web_address(text: str) -> bool:
    """Whether a text is an http(s) address that names a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _seconds(value: object) -> object:
    """Return the seconds of a duration like `1h30m`."""
    if isinstance(value, bool):
        raise ValueError(_NO_DURATION)
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text):
        return float(text)
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        raise ValueError(_NO_DURATION)
    return sum(float(number or 0) * unit for number, unit in zip(found.groups(), (86_400, 3_600, 60, 1), strict=True))


def _check_network(value: str) -> str:
    try:
        return str(ip_network(value, strict=False))
    except ValueError:
        raise ValueError("should be an IP address or a network, such as 127.0.0.1 or 10.0.0.0/8") from None


def check_store(value: str) -> str:
    """Return an address of a database on Postgres.

    Raises:
        ValueError: it is no such address, or has a password in it; the words go after the name of a setting.
    """
    if not value.startswith(("postgresql://", "postgres://")):
        raise ValueError("should be `postgresql://USER@HOST/DATABASE`; leave it out for SQLite")
    try:
        parts = urlsplit(value)
        query = parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise ValueError("should be an address: `postgresql://USER@HOST/DATABASE`") from None
    if parts.password is not None or "password" in query:
        raise ValueError("should contain no password: put it in the file `secrets/store_password`")
    if not re.fullmatch(_SCHEMA, query.get("schema", [DEFAULT_SCHEMA])[-1]):
        raise ValueError("has an invalid `schema`: use up to 63 lower-case letters, digits and `_`")
    return value


def absolute(value: Path, base: Path = Path()) -> Path:
    """Return the folder or file that a person means by `value`: `~` is a home, a relative path counts from `base`.

    Raises:
        ValueError: no file system has such a path.
    """
    if any(category(character) == "Cc" for character in str(value)):
        raise ValueError("should contain no control characters")
    try:
        found = (base / value.expanduser()).absolute()
        names = [os.fsencode(part) for part in found.parts]
    except RuntimeError:
        raise ValueError("begins with `~`, but this machine has no such user") from None
    except UnicodeEncodeError:
        raise ValueError("contains half a character, which is invalid in a path") from None
    if len(os.fsencode(found)) > _MAX_PATH or max(map(len, names)) > _MAX_NAME:
        raise ValueError("is too long for a path")
    return found


def _refuse_loaders(value: dict[str, str]) -> dict[str, str]:
    if loaders := [name for name in value if _LOADED.fullmatch(name)]:
        raise ValueError(f"should not set {loaders[0]}: it makes every command run another program first")
    return value


def _check_program(command: str) -> str:
    if not command.strip() or any(ord(character) < 32 for character in command):
        raise ValueError("should be the name or the path of a program")
    if " " in command.strip() and "/" not in command:
        raise ValueError(f"should be one program; write `command: {command.split()[0]}` and put the rest in `args`")
    return command


def _check_selection(value: tuple[str, ...]) -> tuple[str, ...]:
    if problem := find_fault(value):
        raise ValueError(problem)
    return value


OneOrMore = BeforeValidator(_split)
"""A list that may also be written as one text with commas, as environment variables are."""

Names = Annotated[tuple[str, ...], OneOrMore]
Selection = Annotated[tuple[str, ...], OneOrMore, AfterValidator(_check_selection)]
"""Which tools: see `goclaw.common.core.selection`."""
_NO_NUL = "should contain no NUL characters"
Words = Annotated[tuple[str, ...], require_that(lambda words: "\0" not in "".join(words), _NO_NUL)]
"""Arguments of a program, a word each."""
Program = Annotated[str, AfterValidator(_check_program)]
Ports = Annotated[tuple[Annotated[int, Field(ge=1, le=65_535)], ...], OneOrMore]
GroupId = Annotated[
    int,
    require_that(lambda group: group < 0, "should be a group's id, which is negative; people belong in users.json"),
]


class GroupSettings(Section):
    """One group."""

    context: int = Field(
        0,
        ge=0,
        le=100,
        description="Number of earlier messages of listed people that the bot sees with a message to it.",
    )


LISTED, MAPPED = "[list]", "[mapping]"
"""Marks of the two forms of `Groups`; no key has such a name."""
Groups = Annotated[
    Annotated[tuple[GroupId, ...], Tag(LISTED)] | Annotated[dict[GroupId, GroupSettings], Tag(MAPPED)],
    Discriminator(lambda value: MAPPED if isinstance(value, Mapping) else LISTED),
    OneOrMore,
]
"""Ids of groups, or what holds for each of them."""


def contexts_of(groups: Groups) -> Mapping[int, int]:
    """Return how many messages before one to the bot it gets, by group."""
    if isinstance(groups, tuple):
        return dict.fromkeys(groups, 0)
    return {group: settings.context for group, settings in groups.items()}


ChatName = Annotated[
    str,
    require(
        r"telegram:-?[1-9][0-9]{0,19}(:[1-9][0-9]{0,19})?",
        "should be `telegram:<chat id>`: the number of a person or a group, no name",
    ),
]
Host = Annotated[
    str,
    require(
        r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:.]{2,45}",
        "should be the name or the address of this machine, such as 127.0.0.1",
    ),
]
Hosts = Annotated[tuple[Host, ...], OneOrMore]
_ORIGIN = require(
    r"https?://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?",
    "should be the beginning of a page's address: `https://host`, without a path",
)
Origins = Annotated[tuple[Annotated[str, _ORIGIN, AfterValidator(str.lower)], ...], OneOrMore]


class ListenerSettings(Section):
    """Where a server of GoClaw listens. Each has a port of its own."""

    host: Host = Field("127.0.0.1", description="Address to listen on.")
    hosts: Hosts = Field(
        (),
        description="Host names it answers to, besides localhost and those in `public_url` and, for `http`, "
        "`telegram.webhook.url`.",
    )


Networks = Annotated[tuple[Annotated[str, AfterValidator(_check_network)], ...], OneOrMore]
UrlPath = Annotated[
    str,
    require(
        r"/[A-Za-z0-9._~/-]{0,200}",
        "should be the path of an address: `/` and letters, digits, `-`, `_`, `.`, `~`, `/`",
    ),
]
Url = Annotated[
    str,
    require_that(is_web_address, "should be a URL like http://host:port"),
    AfterValidator(lambda url: url.rstrip("/")),
]
Spec = Annotated[str, require(r"[^:\s]+:\S+", "should be `provider:model`, such as openai-chat:whisper-1")]
ModelName = Annotated[
    str,
    require(r"demo|[^:\s]+:\S+", "should be `provider:name`, such as anthropic:claude-opus-5-5, or `demo`"),
]
Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(gt=0),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}),
]
"""Seconds; may be written as `1h30m`."""
ReplicaName = Annotated[str, require(r"[A-Za-z0-9._-]{0,40}", "should be 40 letters, digits, `.`, `_` and `-` at most")]
StoreAddress = Annotated[str, AfterValidator(check_store)]
Secret = Annotated[SecretStr, require("[!-~]+", "should be one word without spaces, line breaks or unusual characters")]
WebhookSecret = Annotated[
    SecretStr, require(r"[A-Za-z0-9_-]{16,256}", "should be 16 to 256 letters, digits, `_` and `-`")
]
_VARIABLE = re.compile(r"\$(?:\{\w+\}|[A-Za-z_]\w*)")


def _refuse_variables(value: Path) -> Path:
    """Refuse `$HOME` and `${VAR}` in a path: only a shell fills them in, so they would become the name of a folder."""
    if found := _VARIABLE.search(str(value)):
        raise ValueError(
            f"contains {found.group()}, which GoClaw does not expand: write the full path, or begin it with `~/`"
        )
    return value


Folder = Annotated[Path, AfterValidator(_refuse_variables), AfterValidator(absolute)]
Files = Annotated[tuple[Folder, ...], OneOrMore]
VARIABLE_NAMES = require_names("[A-Za-z_][A-Za-z0-9_]*", "should have names of letters, digits and `_`")
Environment = Annotated[
    dict[str, str],
    VARIABLE_NAMES,
    AfterValidator(_refuse_loaders),
    require_that(lambda variables: "\0" not in "".join(variables.values()), _NO_NUL),
]
Level = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR"],
    BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value),
]

Mode = Literal["default", "accept-edits", "plan", "bypass"]
"""Permission modes."""
Guard = Literal["ask", "deny", "off"]
"""Modes of the guard (`goclaw.tools.approval.guard`)."""
ToolProfile = Literal["auto", "core", "index", "all"]
"""Number of its tools that a model is shown (`toolkit.offering`)."""
Workplace = Literal["own", "shared"]
"""A workspace that belongs to one person, or the configured one."""
QueueMode = Literal["queue", "collect", "steer", "interrupt"]
"""Handling of a message that comes while a turn of its session runs; `sessions.queueing` describes it."""
Point = Literal[
    "pre_tool", "post_tool", "post_tool_failure", "session_start", "before_compaction", "message_in", "message_out"
]
"""Events that hooks are called for."""
Answer = Literal["run", "ask", "refuse"]
"""Decision about a tool call before it runs."""
Row = Literal["low", "medium", "contained", "high", "critical"]
"""The rows of the table "What runs, what asks"."""


_EMOJI = (
    "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤️‍🔥 🌚 "
    "🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 "
    "🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂️ 🤷 🤷‍♀️ 😡"
)
"""Bot API 9, ReactionTypeEmoji."""
_VARIANTS = re.compile("[\ufe0f\U0001f3fb-\U0001f3ff]")
"""The mark that asks for a coloured form, and skin tones: keyboards add them, Telegram's list has few of them."""
ALLOWED_REACTIONS: Mapping[str, str] = {_VARIANTS.sub("", emoji): emoji for emoji in _EMOJI.split()}
"""Every reaction as Telegram writes it, by its form without variants."""
_SOME_REACTIONS = "👍 👎 ❤ 🔥 🎉 👏 😁 🤔 😢 🙏 👌 💯 👀"


def reaction_of(emoji: str) -> str:
    """Return the emoji as Telegram writes it.

    Raises:
        ValueError: Telegram has no such reaction; the message names some that it has.
    """
    found = ALLOWED_REACTIONS.get(_VARIANTS.sub("", emoji.strip()))
    if found is None:
        shown = emoji[:20] or "empty text"
        raise ValueError(f"Telegram does not accept {shown} as a reaction; it accepts, for example, {_SOME_REACTIONS}")
    return found


Reaction = Annotated[str, AfterValidator(reaction_of)]


CONTAINER_SECRETS = Path("/run/secrets")
"""Folder where container engines mount secrets."""


def _content(file: Path) -> SecretStr | None:
    """Return the secret in a file, or None."""
    try:
        return SecretStr(text) if (text := file.read_text().strip()) else None
    except (OSError, ValueError):
        return None


@record
class PostgresPlace:
    """A schema of a Postgres database."""

    url: str
    """As libpq takes it: without the password and the schema."""
    schema: str
    password: SecretStr | None = None
    password_file: Path | None = None
    """Where the password came from. It is read again for each connection: a new one takes effect without a restart."""

    @classmethod
    def of(cls, address: str, password: SecretStr | None = None, state_dir: Path | None = None) -> "PostgresPlace":
        """Take a checked address apart.

        Args:
            address: with the schema after `?`, if that has another name than usual.
            password: the one that is set; None: libpq looks for it.
            state_dir: has `secrets/store_password`; where that or the container's file says the same, it is read again.
        """
        query = parse_qsl(urlsplit(address).query, keep_blank_values=True)
        schema = dict(query).get("schema", DEFAULT_SCHEMA)
        rest = urlencode([(name, value) for name, value in query if name != "schema"])
        bare = address.partition("?")[0]
        folders = [CONTAINER_SECRETS] if state_dir is None else [state_dir / "secrets", CONTAINER_SECRETS]
        files = [folder / "store_password" for folder in folders]
        source = next((file for file in files if password and _content(file) == password), None)
        return cls(f"{bare}?{rest}" if rest else bare, schema, password, source)

    def current_password(self) -> str | None:
        """Return the password for a new connection; the former one where its file cannot be read now."""
        found = (_content(self.password_file) if self.password_file else None) or self.password
        return found.get_secret_value() if found else None

    @property
    def shown(self) -> str:
        """The place for people: `the schema goclaw of postgresql://goclaw@db/goclaw`."""
        return f"the schema {self.schema} of {self.url.partition('?')[0]}"

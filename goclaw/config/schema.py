"""Every key of the configuration with its type, default and meaning.

The descriptions are the documentation: `goclaw config schema` and docs/configuration.md are made from them. Unknown
keys are refused everywhere.
"""

import os
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from goclaw.config.values import (
    ChatName,
    Environment,
    Folder,
    Groups,
    Host,
    Hosts,
    Level,
    Mode,
    Names,
    OneOrMore,
    Origins,
    Ports,
    QueueMode,
    Row,
    Secret,
    Spec,
    Url,
    UrlPath,
    WebhookSecret,
    absolute,
)

ADMIN, USER = "admin", "user"
"""The roles that are there without being defined: one may do everything, the other is everybody's who has none."""


MOST = 1_000_000_000
"""No number of the configuration means more than this; the kernel takes sizes below 2^63 bytes."""


class Section(BaseModel):
    """A mapping of the configuration; a key that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        # pydantic reads true as 1, which turns a slip into a limit.
        kind = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and not {int, float}.isdisjoint(get_args(kind) or (kind,)):
            raise ValueError("should be a number, not true or false")
        return value

    @field_validator("*")
    @classmethod
    def _no_absurd_number(cls, value: Any) -> Any:
        if isinstance(value, int | float) and value > MOST:
            raise ValueError(f"should be at most {MOST:,}")
        return value


class WebhookSettings(Section):
    """How Telegram calls us, with `telegram.mode: webhook`."""

    url: Url | None = Field(
        None, description="The public https address, `https://claw.example.org/telegram`, that leads to the listener."
    )
    path: UrlPath | None = Field(
        None, description="Where the listener expects it, if a proxy changes the path; not set: the URL's."
    )
    secret: WebhookSecret | None = Field(
        None,
        description="What Telegram says with every call; not set: made at the first start and kept in `secrets/`.",
    )


class TelegramSettings(Section):
    """The Telegram channel."""

    enabled: bool | None = Field(None, description="On or off; not set: on when there is a token.")
    token: Secret | None = Field(None, description="The bot's token, from @BotFather. Env: TELEGRAM_BOT_TOKEN.")
    mode: Literal["polling", "webhook"] = Field(
        "polling", description="Whether we ask Telegram for news (no open port needed), or Telegram calls us."
    )
    webhook: WebhookSettings = Field(default_factory=WebhookSettings, description="For `mode: webhook`.")
    base_url: Url = Field(
        "https://api.telegram.org", description="A Bot API server, without `/bot…`: `http://host:port`."
    )
    proxy: Url | None = Field(None, description="HTTP proxy for Telegram only, `http://user:password@host:port`.")
    groups: Groups = Field((), description="Numeric ids of the groups where the bot may answer; empty: none.")
    messages_per_second: float = Field(30, gt=0, description="Telegram's limit over all chats.")
    chat_messages_per_second: float = Field(1, gt=0, description="Telegram's limit per chat, after a burst.")
    burst: int = Field(3, ge=1, description="Messages that a chat takes at once before its rate counts.")
    group_messages_per_minute: float = Field(20, gt=0, description="Telegram's limit per group.")
    poll_seconds: int = Field(25, ge=0, le=50, description="How long one getUpdates waits for news.")


class HttpSettings(Section):
    """The HTTP listener: `/healthz`, `/readyz`, Telegram's webhook, and terminals over TCP."""

    enabled: bool | None = Field(
        None, description="On or off; not set: on when something needs it (`telegram.mode: webhook`, `http.clients`)."
    )
    clients: bool = Field(
        False, description="Whether terminals may come in at `/ws` with a token (`goclaw token add`)."
    )
    host: Host = Field(
        "127.0.0.1", description="Address to listen on; one that others reach needs a credential to be set."
    )
    port: int = Field(8137, ge=0, le=65535, description="Port; 0 picks a free one.")
    hosts: Hosts = Field(
        (), description="Names by which it may be called, beside localhost and that in `telegram.webhook.url`."
    )
    origins: Origins = Field((), description="Pages that may call it, `https://host`; others are refused.")


class AlertSettings(Section):
    """Faults that need the operator: they are told to a chat, once each."""

    to: ChatName | None = Field(
        None,
        description="Where: `telegram:<chat id>`, or `telegram:<chat id>:<topic>`; not set: the first admin in "
        "users.json whom the bot can write to.",
    )


class PairingSettings(Section):
    """Strangers who write to the bot in private: they get a code, and an admin lets them in by it."""

    enabled: bool = Field(False, description="Whether they get a code; otherwise they are not answered at all.")
    role: str = Field("user", description="The role in users.json of whoever is let in; never `admin`.")
    allowed_tools: Names | None = Field(
        None, description="`allowedTools` in users.json of whoever is let in; not set: what the role allows."
    )
    waiting: int = Field(20, ge=1, le=1_000, description="Codes that may be open at once; each for one hour.")

    @field_validator("role")
    @classmethod
    def _no_admin(cls, role: str) -> str:
        if role == ADMIN or not role.strip():
            raise ValueError("should be `user` or one of your `roles`; admins are made by hand, in users.json")
        return role


class ProviderSettings(Section):
    """Access to one provider of models."""

    api_key: Secret | None = Field(None, description="The key; the provider's own variable is read, too.")
    base_url: Url | None = Field(None, description="Another server that speaks the same protocol.")
    max_context: int = Field(
        32_768,
        ge=2_048,
        description="Ollama only: the largest `num_ctx` that is ever asked for (memory grows with it).",
    )


class ModelOptions(Section):
    """What is known of one model beyond its name."""

    context_window: int | None = Field(None, ge=1_024, description="Tokens; not set: from the model data.")
    max_output: int | None = Field(None, ge=1, description="Tokens an answer may have; not set: from the model data.")
    thinking: Literal["off", "low", "medium", "high"] = Field("off", description="How hard the model thinks.")
    price_input: float | None = Field(None, ge=0, description="US dollars per million input tokens.")
    price_output: float | None = Field(None, ge=0, description="US dollars per million output tokens.")
    images: bool | None = Field(None, description="Whether the model sees pictures; not set: from the model data.")
    compress_output: bool | None = Field(
        None, description="Shorten command output; not set: only for local models. Without effect yet."
    )


class ModelsSettings(Section):
    """Which models answer."""

    agent: Names = Field(
        (), description="Chain of `provider:name`, the first is the main model. Empty: the best that is found."
    )
    summary: Annotated[tuple[str, ...] | Literal["auto"], OneOrMore] = Field(
        "auto", description="Chain for summaries; `auto`: a local Ollama model if one answers; empty: main model only."
    )
    options: dict[str, ModelOptions] = Field(default_factory=dict, description="Per model, by its full name.")


class CompactionSettings(Section):
    """When and how the context is compacted."""

    reserve_tokens: int = Field(30_000, ge=0, description="Compact when fewer tokens than this are free.")
    max_messages: int = Field(500, ge=0, description="Compact past this many messages; 0: no limit.")
    min_messages: int = Field(20, ge=2, description="Messages kept at least.")
    keep_percent: int = Field(20, ge=1, le=90, description="Share of the messages that is kept.")
    prefer_checkpoint: bool = Field(True, description="Take a checkpoint for the summary when it covers half.")
    timeout_seconds: float = Field(120, gt=0, description="How long a summary may take while a turn waits for it.")
    full_timeout_seconds: float = Field(600, gt=0, description="How long one may take that nobody waits for.")
    failure_threshold: int = Field(3, ge=1, description="Failures in a row after which `models.summary` is left alone.")
    reset_minutes: float = Field(30, gt=0, description="For how long it is left alone.")
    retry_interval_seconds: float = Field(60, gt=0, description="How often summaries that are owed are tried again.")


class CheckpointSettings(Section):
    """Checkpoints of long conversations, made in the background and used by compaction."""

    enabled: bool = Field(True, description="Whether checkpoints are made.")
    main_model: bool = Field(False, description="Whether the main model makes them when no other can: it costs money.")
    min_tokens: int = Field(5_000, ge=0, description="None below this size of the context.")
    every_turns: int = Field(10, ge=1, description="One after so many messages of people, besides 25, 50 and 75 %.")


class FlushSettings(Section):
    """What matters is written to `memory/` when the context is at 50 and at 75 %, silently."""

    enabled: bool = Field(True, description="Whether it is done.")
    main_model: bool = Field(False, description="Whether the main model does it when no other can: it costs money.")


class MemorySettings(Section):
    """Memory files and their search."""

    enabled: bool = Field(True, description="Whether memory is indexed and searched.")
    paths: Names = Field((), description="More files and folders to search, relative to the workspace.")
    max_results: int = Field(6, ge=1, le=50, description="Hits that a search returns.")
    flush: FlushSettings = Field(
        default_factory=FlushSettings, description="Notes that are taken before a context is compacted."
    )


class RetentionSettings(Section):
    """How long conversations are kept."""

    days: int | None = Field(
        None,
        ge=1,
        le=36_500,
        description="Messages older than this are deleted for ever, once a day; not set: everything is kept.",
    )


class MediaSettings(Section):
    """Files that come with messages."""

    ttl: float = Field(
        600, ge=60, description="Seconds that a picture or file is kept to which no conversation's context refers."
    )
    text_characters: int = Field(
        20_000, ge=0, description="Characters of a text file or a transcript that the model is shown."
    )
    transcriber: Spec | None = Field(
        None, description="Who writes down voice messages: `provider:model`, such as `openai-chat:whisper-1`."
    )
    transcriber_seconds: float = Field(120, gt=0, le=600, description="How long a transcript may take.")


class ExecSettings(Section):
    """The `exec` tool."""

    sandbox: Literal["auto", "bubblewrap", "broker", "off"] = Field(
        "auto", description="Containment: the best that works here, a certain one, or none at all (`off`)."
    )
    network: Literal["none", "proxy", "host"] = Field(
        "none",
        description="What commands reach of the network: nothing, public hosts through a proxy that keeps to "
        "`tools.network` (bubblewrap only), or all that this machine reaches.",
    )
    allowed: Names | None = Field(
        None,
        description="Only these commands may run: `git`, or `git status` for these first words. Not set: every one. "
        "Also judged: what `env`, `xargs`, `sh -c` and substitutions run; what cannot be judged is refused.",
    )
    blocked: Names = Field((), description="Commands that may not run, in the same form.")
    timeout: float = Field(30, gt=0, le=300, description="Seconds a command gets when it asks for none.")
    output_limit: int = Field(30_000, ge=1_000, description="Characters of output the model sees; the tail is kept.")
    env: Environment = Field(default_factory=dict, description="Variables added to the commands' environment.")
    memory_mb: int = Field(2_048, ge=64, description="Memory one process may use.")
    processes: int = Field(256, ge=8, description="Processes and threads one command may have.")
    cpu_seconds: int = Field(300, ge=1, description="CPU time one process may use.")
    file_mb: int = Field(1_024, ge=1, description="Largest file a command may write.")


class NetworkSettings(Section):
    """What tools and contained commands reach of the network. Private addresses and this machine they never do."""

    allow: Names = Field(
        (), description="Exceptions: `host`, `host:port`, an address or a network of yours that may be reached."
    )
    deny: Names = Field((), description="Hosts, with all below them, addresses and networks that may not be reached.")
    ports: Ports = Field((80, 443), description="Ports that commands reach through the proxy of `tools.exec.network`.")


class ReadSettings(Section):
    """The `read` tool."""

    max_lines: int = Field(500, ge=1, description="Lines returned when no limit is asked for.")
    max_bytes: int = Field(50_000, ge=1_000, description="Bytes returned at most.")
    max_file_mb: int = Field(20, ge=1, description="Larger files are refused in words.")


class ToolsSettings(Section):
    """Tools."""

    timeout: float = Field(30, gt=0, description="Seconds a tool may run when it declares no time of its own.")
    disabled: Names = Field((), description="Names of tools that nobody may use.")
    exec: ExecSettings = Field(default_factory=ExecSettings, description="The `exec` tool.")
    network: NetworkSettings = Field(
        default_factory=NetworkSettings, description="What tools reach of the network, besides what a sandbox says."
    )
    read: ReadSettings = Field(default_factory=ReadSettings, description="The `read` tool.")


class PolicySettings(Section):
    """What runs, what asks, what is refused."""

    mode: Mode = Field("default", description="Permission mode.")
    allow_bypass: bool = Field(False, description="Whether admins may use the mode `bypass`.")
    stricter: dict[Row, Literal["ask", "refuse"]] = Field(
        default_factory=dict,
        description="Stricter answers per row of the table in docs/configuration.md: `medium: ask`, `high: refuse` …",
    )
    other_chats: Literal["ask", "deny"] = Field("ask", description="Messages of the agent to chats other than its own.")
    approval_minutes: int = Field(
        30, ge=1, le=1_440, description="Minutes that an approval is waited for, and that one which was given holds."
    )


class AuditSettings(Section):
    """The audit log: who did what, and by which rule it was allowed. `goclaw audit` shows it."""

    enabled: bool = Field(True, description="Whether it is written.")
    file_mb: int = Field(10, ge=1, le=1_000, description="Size at which a new file is begun.")
    files: int = Field(10, ge=1, le=1_000, description="Files that are kept besides the newest.")


class RoleSettings(Section):
    """What a role in users.json allows; `allowedTools` of an entry narrows it further."""

    tools: Names | None = Field(None, description="Exactly these tools; not set: every tool.")
    commands: Names | None = Field(None, description="Exactly these slash commands; not set: every one.")
    sessions: Literal["own", "read", "all"] = Field(
        "own", description="Which conversations: their own, every one to read, or every one to read and steer."
    )
    approves: Literal["none", "own", "all"] = Field(
        "own", description="Which questions may be answered: none, those of their own turns, or everybody's."
    )
    other_chats: bool = Field(True, description="Whether the agent may write to other chats for them (it asks first).")


class LimitSettings(Section):
    """Limits of one turn; each ends it with a sentence that names its key."""

    tool_calls: int = Field(50, ge=1, description="Tool calls in one turn.")
    failed_calls: int = Field(5, ge=1, description="Tool calls that fail one after the other.")
    repeated_calls: int = Field(3, ge=1, description="Identical tool calls one after the other.")
    turn_seconds: float = Field(900, gt=0, description="Wall-clock seconds of one turn.")
    queued_messages: int = Field(100, ge=1, description="Messages that may wait in one session.")
    stuck_minutes: float = Field(
        10, ge=0, description="A turn in which nothing happens for so long is reported, and goes on; 0: never."
    )


class QueueSettings(Section):
    """What becomes of a message that comes while a turn of its session runs; `/queue` chooses it per session."""

    mode: QueueMode = Field(
        "queue",
        description="`queue`: it waits and gets an answer of its own; `collect`: what one person wrote in a row "
        "meanwhile is answered together; `steer`: it joins the turn before the model is asked the next time; "
        "`interrupt`: it stops the turn and takes its place. The last two only for the person whose turn it is.",
    )


def default_state_dir() -> Path:
    """`GOCLAW_STATE_DIR`, else `~/.goclaw`; raises as `values.absolute` does."""
    return absolute(Path(os.environ.get("GOCLAW_STATE_DIR") or "~/.goclaw"))


class Config(Section):
    """The whole configuration."""

    state_dir: Folder = Field(default_factory=default_state_dir, description="Database, media, logs, socket.")
    workspace: Folder | None = Field(
        None, description="Where the agent works; not set: `workspace` in the state folder."
    )
    users_file: Folder | None = Field(None, description="Who may do what; not set: `users.json` in the state folder.")
    telegram: TelegramSettings = Field(default_factory=TelegramSettings, description="The Telegram channel.")
    http: HttpSettings = Field(default_factory=HttpSettings, description="The HTTP listener.")
    pairing: PairingSettings = Field(
        default_factory=PairingSettings, description="How strangers become users, if they may."
    )
    models: ModelsSettings = Field(default_factory=ModelsSettings, description="Which models answer.")
    providers: dict[str, ProviderSettings] = Field(default_factory=dict, description="Access to providers, by name.")
    compaction: CompactionSettings = Field(default_factory=CompactionSettings, description="Context compaction.")
    checkpoint: CheckpointSettings = Field(default_factory=CheckpointSettings, description="Checkpoints.")
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings, description="How long conversations are kept."
    )
    memory: MemorySettings = Field(default_factory=MemorySettings, description="Memory files and their search.")
    media: MediaSettings = Field(default_factory=MediaSettings, description="Files that come with messages.")
    tools: ToolsSettings = Field(default_factory=ToolsSettings, description="Tools.")
    policy: PolicySettings = Field(default_factory=PolicySettings, description="What runs, what asks.")
    roles: dict[str, RoleSettings] = Field(
        default_factory=dict,
        description="Roles for users.json, by name. `admin` is built in and may do everything; `user` (also of whoever "
        "has no role) has the defaults below unless it is defined here.",
    )
    audit: AuditSettings = Field(default_factory=AuditSettings, description="The audit log.")
    limits: LimitSettings = Field(default_factory=LimitSettings, description="Limits of one turn.")
    alerts: AlertSettings = Field(default_factory=AlertSettings, description="Faults that need the operator.")
    queue: QueueSettings = Field(default_factory=QueueSettings, description="Messages that come while a turn runs.")
    channels: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Settings of channels that come from plugins, by name."
    )
    log_level: Level = Field("INFO", description="Env: LOG_LEVEL.")

    @field_validator("roles")
    @classmethod
    def _admin_is_built_in(cls, roles: dict[str, RoleSettings]) -> dict[str, RoleSettings]:
        if ADMIN in roles:
            raise ValueError(f"{ADMIN} is built in and cannot be defined; choose another name")
        return roles

    @property
    def workspace_path(self) -> Path:
        """The workspace folder, absolute."""
        return self.workspace or self.state_dir / "workspace"

    @property
    def users_path(self) -> Path:
        """The users file, absolute."""
        return self.users_file or self.state_dir / "users.json"

    @property
    def database_path(self) -> Path:
        """The SQLite database."""
        return self.state_dir / "goclaw.db"

    @property
    def tokens_path(self) -> Path:
        """The hashes of the access tokens."""
        return self.state_dir / "access-tokens.json"

    @property
    def socket_path(self) -> Path:
        """The Unix socket on which the terminal clients reach the daemon."""
        return self.state_dir / "goclaw.sock"

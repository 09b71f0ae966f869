"""Every key of the configuration; the descriptions are what `goclaw config schema` and docs/configuration.md say."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from goclaw.common.config.agents import AgentsSettings
from goclaw.common.config.exports import Publication
from goclaw.common.config.heartbeat import DayHours, HeartbeatSettings
from goclaw.common.config.hooks import HookSettings
from goclaw.common.config.mcp import McpSettings, McpUseSettings
from goclaw.common.config.policies import (
    ADMIN,
    AuditSettings,
    LimitSettings,
    PairingSettings,
    PolicySettings,
    ReplicaSettings,
    RoleSettings,
)
from goclaw.common.config.registries import Registries, RegistryServerSettings
from goclaw.common.config.schedules import ConfiguredSchedules
from goclaw.common.config.section import Section, Sections
from goclaw.common.config.tools import ToolsSettings
from goclaw.common.config.values import (
    ChatName,
    Files,
    Folder,
    Groups,
    Level,
    ListenerSettings,
    Names,
    Networks,
    OneOrMore,
    Origins,
    PostgresPlace,
    QueueMode,
    Reaction,
    Secret,
    Spec,
    StoreAddress,
    ToolProfile,
    Url,
    UrlPath,
    WebhookSecret,
    absolute,
)
from goclaw.common.config.webhooks import EndpointName, NotifyTargets, Webhooks
from goclaw.common.core.selection import TAG


class WebhookSettings(Section):
    """How Telegram calls us, with `telegram.mode: webhook`."""

    url: Url | None = Field(
        None, description="The public https address, `https://claw.example.org/telegram`, that leads to the listener."
    )
    path: UrlPath | None = Field(
        None, description="The path at the listener, if a proxy changes it; not set: the path in the URL."
    )
    secret: WebhookSecret | None = Field(
        None, description="The secret in Telegram's calls; not set: created at the first start and kept in `secrets/`."
    )


class TelegramSettings(Section):
    """The Telegram channel."""

    enabled: bool | None = Field(None, description="On or off; not set: on when there is a token.")
    token: Secret | None = Field(None, description="The bot's token, from @BotFather. Env: TELEGRAM_BOT_TOKEN.")
    mode: Literal["polling", "webhook"] = Field(
        "polling", description="Whether GoClaw polls Telegram (no open port needed), or Telegram calls GoClaw."
    )
    webhook: WebhookSettings = Field(default_factory=WebhookSettings, description="For `mode: webhook`.")
    base_url: Url = Field(
        "https://api.telegram.org", description="A Bot API server, without `/bot…`: `http://host:port`."
    )
    proxy: Url | None = Field(None, description="HTTP proxy for Telegram only, `http://user:password@host:port`.")
    groups: Groups = Field(
        (),
        description="Numeric ids of groups in which the bot answers, as a list or a mapping `<id>: {context: N}`; "
        "empty: none.",
    )
    messages_per_second: float = Field(30, gt=0, description="Telegram's limit over all chats.")
    chat_messages_per_second: float = Field(1, gt=0, description="Telegram's limit per chat, after a burst.")
    burst: int = Field(3, ge=1, description="Messages that a chat accepts at once before its rate limit applies.")
    group_messages_per_minute: float = Field(20, gt=0, description="Telegram's limit per group.")
    poll_seconds: int = Field(25, ge=0, le=50, description="How long one getUpdates waits for updates.")
    interim: Literal["separate", "joined"] = Field(
        "separate",
        description="Whether text before a tool call comes as a separate message (at most six per minute and chat; "
        "more are joined) or with the answer.",
    )
    ack_reaction: Reaction | None = Field(
        None, description="A reaction to each message as soon as it is stored, such as 👀; not set: none."
    )
    artifacts: Literal["files", "no_diffs", "none"] = Field(
        "no_diffs",
        description="Which artifacts of tools follow the answer as files: all, all except file changes, or none; at "
        "most three per turn, and only in private chats.",
    )


class HttpSettings(ListenerSettings):
    """The HTTP listener: `/healthz`, `/readyz`, webhooks, and terminals over TCP."""

    enabled: bool | None = Field(
        None,
        description="On or off; not set: on when something needs it (`telegram.mode: webhook`, `http.api`, "
        "`http.clients`, `http.metrics`, `http.openai`, `http.web`, `webhooks`).",
    )
    api: bool = Field(False, description="Whether programs and pages may use `/api/v1` with a token (docs/api.md).")
    clients: bool = Field(
        False, description="Whether terminals may connect to `/ws` with a token (`goclaw token add`)."
    )
    metrics: bool = Field(
        False, description="Whether `/metrics` serves figures for Prometheus, to admins' tokens and this machine."
    )
    port: int = Field(8137, ge=0, le=65535, description="Port; 0 picks a free one.")
    origins: Origins = Field((), description="Pages that may call it, `https://host`; others are refused.")
    trusted_proxies: Networks = Field(
        (),
        description="Addresses or networks of reverse proxies (`127.0.0.1`, `10.0.0.0/8`), whose `X-Forwarded-For` "
        "names the caller for limits, log and audit.",
    )
    openai: bool = Field(
        False, description="Whether programs may use `/v1` with a token, like OpenAI's API (docs/openai.md)."
    )
    public_url: Url | None = Field(
        None, description="The public address of the listener, `https://claw.example.org`, for links."
    )
    web: bool = Field(
        False, description="Whether to serve the web page at `/` (docs/web-page.md); this includes `/api/v1`."
    )


class OpenAISettings(Section):
    """The answers that programs get at `/v1` (`http.openai`)."""

    progress: bool = Field(True, description="Whether to stream thinking and tool use as the model's reasoning.")


class AlertSettings(Section):
    """Faults that need the operator: they are told to a chat, once each."""

    to: ChatName | None = Field(
        None,
        description="The destination: `telegram:<chat id>`, or `telegram:<chat id>:<topic>`; not set: the first admin "
        "in users.json whom the bot can write to.",
    )
    notify: Annotated[tuple[EndpointName, ...], OneOrMore] = Field(
        (), description="Additional destinations, names of `notify`."
    )


class ProviderSettings(Section):
    """Access to one provider of models."""

    api_key: Secret | None = Field(None, description="The API key; the provider's own environment variable works, too.")
    base_url: Url | None = Field(None, description="Another server that speaks the same protocol.")
    max_context: int = Field(
        32_768,
        ge=2_048,
        description="Ollama only: the largest `num_ctx` that GoClaw chooses (docs/models.md); "
        "`models.options.<model>.context_window` wins.",
    )
    defer_tools: bool = Field(
        False,
        description="Anthropic only: use its own tool search instead of `tool_search` and `tool_call` (Claude 4.5 and "
        "later; docs/context.md).",
    )


class ModelOptions(Section):
    """Facts of one model beyond its name."""

    context_window: int | None = Field(
        None, ge=1_024, description="Tokens; not set: from the model data, or for Ollama by the free memory."
    )
    max_output: int | None = Field(None, ge=1, description="Maximum tokens of an answer; not set: from the model data.")
    thinking: Literal["off", "low", "medium", "high"] = Field("off", description="How hard the model thinks.")
    price_input: float | None = Field(None, ge=0, description="US dollars per million input tokens.")
    price_output: float | None = Field(None, ge=0, description="US dollars per million output tokens.")
    images: bool | None = Field(None, description="Whether the model sees pictures; not set: from the model data.")
    documents: bool = Field(
        False, description="Whether the model gets PDFs themselves, in place of their text (docs/files.md)."
    )
    text_calls: Literal["auto", "on", "off"] = Field(
        "auto", description="Run tool calls written as text; `auto`: for local models, and those that wrote some."
    )
    compress_output: bool | None = Field(
        None, description="Shorten well-known commands' output; not set: as `tools.exec.compress_output`."
    )
    tools_profile: ToolProfile | None = Field(
        None, description="Which tools are in its requests; not set: as `tools.profile`."
    )


class ModelsSettings(Section):
    """Which models answer."""

    agent: Names = Field(
        (), description="Chain of `provider:name`; the first is the main model. Empty: the best model found."
    )
    summary: Annotated[tuple[str, ...] | Literal["auto"], OneOrMore] = Field(
        "auto", description="Chain for summaries; `auto`: a local Ollama model if one answers; empty: main model only."
    )
    options: dict[str, ModelOptions] = Field(default_factory=dict, description="Per model, by its full name.")
    local_wait: float = Field(120, ge=0, le=3_600, description="Seconds to wait for a local server that is loading.")
    first_byte_seconds: float = Field(
        300, gt=0, le=3_600, description="How long a server may take to start answering; then 60 s of silence end it."
    )


class CompactionSettings(Section):
    """When and how the context is compacted."""

    reserve_tokens: int = Field(30_000, ge=0, description="Compact when fewer tokens than this are free.")
    max_messages: int = Field(500, ge=0, description="Compact past this many messages; 0: no limit.")
    min_messages: int = Field(20, ge=2, description="Minimum number of kept messages, as far as they fit.")
    keep_percent: int = Field(20, ge=1, le=90, description="Share of the messages to keep.")
    prefer_checkpoint: bool = Field(True, description="Use a checkpoint as summary if it covers at least half.")
    timeout_seconds: float = Field(120, gt=0, description="Time limit of a summary while a turn waits for it.")
    full_timeout_seconds: float = Field(600, gt=0, description="Time limit of a summary that no turn waits for.")
    failure_threshold: int = Field(3, ge=1, description="Failures in a row after which `models.summary` is not used.")
    reset_minutes: float = Field(30, gt=0, description="How long it is then not used.")
    retry_interval_seconds: float = Field(60, gt=0, description="How often failed summaries are tried again.")


class CheckpointSettings(Section):
    """Checkpoints of long conversations, made in the background and used by compaction."""

    enabled: bool = Field(True, description="Whether to make checkpoints.")
    main_model: bool | None = Field(
        None, description="Whether the main model may make them; not set: only if it is free."
    )
    min_tokens: int = Field(5_000, ge=0, description="No checkpoints below this context size.")
    every_turns: int = Field(
        10,
        ge=1,
        description="A checkpoint after this many messages of people, in addition to 25, 50 and 75 %; also the "
        "shortest interval of background work in windows of up to 16,384 tokens.",
    )


class FlushSettings(Section):
    """Important facts are written to `memory/` when the context is at 50 and at 75 %, silently."""

    enabled: bool = Field(True, description="Whether to make notes.")
    main_model: bool | None = Field(
        None, description="Whether the main model may make them; not set: only if it is free."
    )


class MemorySettings(Section):
    """Memory files and their search."""

    enabled: bool = Field(True, description="Whether memory is indexed and searched.")
    paths: Names = Field((), description="More files and folders to search, relative to the workspace.")
    documents: Names = Field(
        (), description="Folders of the workspace whose documents are searched, too: PDF, Office files, mails, texts."
    )
    max_results: int = Field(6, ge=1, le=50, description="Maximum results of a search.")
    budget: int = Field(1_000, ge=100, le=20_000, description="Maximum tokens of all passages of a search.")
    transcripts: bool = Field(True, description="Whether what was said is indexed and searched.")
    embedder: str = Field(
        "auto",
        description="Searches by meaning: `auto` (Ollama, else a model on this machine), `none`, or `kind:model`, "
        "such as `ollama:nomic-embed-text`, `sentence-transformers:/opt/minilm`, `openai-chat:text-embedding-3-small`.",
    )
    embedder_python: Folder | None = Field(
        None,
        description="A Python that has sentence-transformers, `/opt/embeddings/bin/python`; not set: GoClaw's own.",
    )
    embedder_memory: int = Field(
        1_500, ge=200, le=64_000, description="Maximum megabytes of an embedder on this machine before it is stopped."
    )
    embedder_idle: float = Field(
        300, ge=1, description="Seconds without work after which an embedder on this machine is stopped."
    )
    flush: FlushSettings = Field(default_factory=FlushSettings, description="Notes made before a context is compacted.")


class RetentionSettings(Section):
    """How long conversations are kept."""

    days: int | None = Field(
        None,
        ge=1,
        le=36_500,
        description="Delete messages older than this forever, once a day; not set: keep everything.",
    )


class MediaSettings(Section):
    """Files attached to messages."""

    max_megabytes: int = Field(
        2_000,
        ge=0,
        description="Maximum megabytes kept; beyond that the oldest pictures go that no model is shown, and the oldest "
        "copies of files that answers name.",
    )
    text_characters: int = Field(
        20_000, ge=0, description="Maximum characters shown of a file or transcript; at most a quarter of the window."
    )
    transcriber: Spec | None = Field(
        None, description="Model for voice messages: `provider:model`, such as `openai-chat:whisper-1`."
    )
    transcriber_seconds: float = Field(120, gt=0, le=600, description="Time limit of a transcription.")


class DocumentSettings(Section):
    """Documents that people send or the agent reads: PDF, Office files, mails, archives."""

    max_file_mb: int = Field(64, ge=1, le=500, description="Larger documents are refused.")
    unsandboxed: bool = Field(
        False,
        description="Read documents without containment where no sandbox works, as on macOS: a document that takes "
        "over a parser then has all rights of the daemon's user.",
    )


class QueueSettings(Section):
    """The handling of a message that arrives during a turn of its session; `/queue` chooses it per session."""

    mode: QueueMode = Field(
        "queue",
        description="`queue`: it waits and gets an answer of its own; `collect`: it waits; consecutive messages of "
        "one person are answered together; `steer`: it joins the turn before the next request to the model; "
        "`interrupt`: it stops the turn and takes its place. The last two only for the person whose turn it is.",
    )


def default_state_dir() -> Path:
    """Return `GOCLAW_STATE_DIR`, else `~/.goclaw`; raises as `values.absolute` does."""
    return absolute(Path(os.environ.get("GOCLAW_STATE_DIR") or "~/.goclaw"))


class Config(Sections):
    """The whole configuration."""

    state_dir: Folder = Field(default_factory=default_state_dir, description="Database, media, logs, socket.")
    workspace: Folder | None = Field(
        None, description="The folder where the agent works; not set: `workspace` in the state folder."
    )
    workspaces: Literal["shared", "per-person"] = Field(
        "shared",
        description="`shared`: everybody in users.json works in `workspace`. `per-person`: each has a separate folder "
        "in `people` of the state folder, which shows `workspace` as `shared/`. Roles and users.json win.",
    )
    users_file: Folder | None = Field(
        None, description="The file of users and rights; not set: `users.json` in the state folder."
    )
    store: StoreAddress | None = Field(
        None,
        description="`postgresql://USER@HOST/DATABASE`: keep conversations and state in Postgres; not set: in a "
        "SQLite file in the state folder. Add `?schema=NAME` for a second deployment in one database.",
    )
    store_password: Secret | None = Field(
        None, description="For `store`: the file `store_password` in `secrets`; else PGPASSFILE, as libpq reads it."
    )
    replica: ReplicaSettings = Field(default_factory=ReplicaSettings, description="This gateway among several.")
    telegram: TelegramSettings = Field(default_factory=TelegramSettings, description="The Telegram channel.")
    http: HttpSettings = Field(
        default_factory=HttpSettings,
        description="The HTTP listener; a `host` that others reach needs a setting with a credential.",
    )
    openai: OpenAISettings = Field(default_factory=OpenAISettings, description="The OpenAI-compatible API at `/v1`.")
    webhooks: Webhooks = Field(default_factory=dict, description="Services that call `/hooks/<name>`, by name.")
    notify: NotifyTargets = Field(default_factory=dict, description="URLs for results and alerts, by name.")
    pairing: PairingSettings = Field(default_factory=PairingSettings, description="How strangers become users.")
    models: ModelsSettings = Field(default_factory=ModelsSettings, description="Which models answer.")
    providers: dict[str, ProviderSettings] = Field(default_factory=dict, description="Access to providers, by name.")
    compaction: CompactionSettings = Field(default_factory=CompactionSettings, description="Context compaction.")
    checkpoint: CheckpointSettings = Field(default_factory=CheckpointSettings, description="Checkpoints.")
    retention: RetentionSettings = Field(default_factory=RetentionSettings, description="How long conversations stay.")
    memory: MemorySettings = Field(default_factory=MemorySettings, description="Memory files and their search.")
    media: MediaSettings = Field(default_factory=MediaSettings, description="Files attached to messages.")
    documents: DocumentSettings = Field(default_factory=DocumentSettings, description="Documents: PDF, Office files.")
    plugins: Files = Field(
        (), description="One-file plugins, `~/garden.py`; files in `tools` of the state folder need no line."
    )
    tools: ToolsSettings = Field(default_factory=ToolsSettings, description="Tools.")
    mcp: McpSettings = Field(default_factory=McpSettings, description="The Model Context Protocol.")
    agents: AgentsSettings = Field(default_factory=AgentsSettings, description="Agents.")
    registries: Registries = Field(
        default_factory=dict, description="Catalogues of toolsets, agents and MCP servers, by name."
    )
    registry_server: RegistryServerSettings = Field(
        default_factory=RegistryServerSettings, description="This gateway's own registry: `goclaw registry serve`."
    )
    policy: PolicySettings = Field(default_factory=PolicySettings, description="Which calls run, and which ask.")
    hooks: tuple[HookSettings, ...] = Field(
        (), description="Your programs that may inspect, change or forbid events, called in this order."
    )
    roles: dict[str, RoleSettings] = Field(
        default_factory=dict,
        description="Roles for users.json, by name. `admin` is built in and may do everything; `user` (for everybody "
        "without a role) has the defaults below unless you define it here.",
    )
    audit: AuditSettings = Field(default_factory=AuditSettings, description="The audit log.")
    limits: LimitSettings = Field(default_factory=LimitSettings, description="Limits of one turn.")
    alerts: AlertSettings = Field(default_factory=AlertSettings, description="Faults that need the operator.")
    schedules: ConfiguredSchedules = Field(
        default_factory=dict, description="Scheduled messages and tasks, by name; read at the start."
    )
    queue: QueueSettings = Field(default_factory=QueueSettings, description="Messages that arrive while a turn runs.")
    heartbeat: HeartbeatSettings = Field(
        default_factory=HeartbeatSettings,
        description="Regular checks of HEARTBEAT.md, for each person who sent `/heartbeat on`.",
    )
    channels: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Settings of channels that come from plugins, by name."
    )
    quiet_hours: DayHours | None = Field(
        None,
        description="Hours of the day in which chats get no unrequested messages (results of tasks, heartbeats, "
        "scheduled messages); they come afterwards. `quietHours` in users.json wins; not set: none.",
    )
    log_level: Level = Field("INFO", description="Env: LOG_LEVEL.")

    @field_validator("providers")
    @classmethod
    def _only_anthropic_defers(cls, providers: dict[str, ProviderSettings]) -> dict[str, ProviderSettings]:
        for name, settings in providers.items():
            if settings.defer_tools and name != "anthropic":
                raise ValueError(f"{name}.defer_tools: only `anthropic` supports this; remove the key")
        return providers

    @field_validator("roles")
    @classmethod
    def _admin_is_built_in(cls, roles: dict[str, RoleSettings]) -> dict[str, RoleSettings]:
        if ADMIN in roles:
            raise ValueError(f"{ADMIN} is built in and cannot be defined; choose another name")
        return roles

    @property
    def toolsets(self) -> dict[str, tuple[str, ...]]:
        """The sets of tools besides those built in: `tools.sets`, pinned sets, registries' and what agents export."""
        of_registries = {name: (f"{TAG}mcp-{name}",) for name in self.tools.from_registry}
        pinned = {name: each.members(name) for name, each in self.tools.pinned.items()}
        return {**self.agents.exported_sets, **of_registries, **pinned, **self.tools.sets}

    @property
    def mcp_servers(self) -> dict[str, tuple[str, McpUseSettings]]:
        """Every MCP server that the agent uses, by name: the key at which it stands, and its settings there."""
        ours = {name: (f"mcp.servers.{name}", each) for name, each in self.mcp.servers.items()}
        found = {name: (f"tools.from_registry.{name}", each) for name, each in self.tools.from_registry.items()}
        return {**found, **ours}

    @property
    def publications(self) -> tuple[Publication, ...]:
        """The sets of tools to publish in registries."""
        exports = self.agents.exports.items()
        found = [Publication(agent, name, export) for agent, sets in exports for name, export in sets.items()]
        found += [Publication("", name, settings) for name, settings in self.tools.publish.items()]
        return tuple(each for each in found if each.settings.publish_to)

    @property
    def workspace_path(self) -> Path:
        """The workspace folder, absolute."""
        return self.workspace or self.state_dir / "workspace"

    @property
    def people_path(self) -> Path:
        """The folder of the workspaces that belong to one person each."""
        return self.state_dir / "people"

    @property
    def users_path(self) -> Path:
        """The users file, absolute."""
        return self.users_file or self.state_dir / "users.json"

    @property
    def database_path(self) -> Path:
        """The SQLite database."""
        return self.state_dir / "goclaw.db"

    @property
    def store_place(self) -> Path | PostgresPlace:
        """Where the database is: a file, or a schema of Postgres."""
        return PostgresPlace.of(self.store, self.store_password, self.state_dir) if self.store else self.database_path

    @property
    def tokens_path(self) -> Path:
        """The hashes of the access tokens."""
        return self.state_dir / "access-tokens.json"

    @property
    def socket_path(self) -> Path:
        """The Unix socket on which the terminal clients reach the daemon."""
        return self.state_dir / "goclaw.sock"

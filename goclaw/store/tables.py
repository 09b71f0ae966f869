"""The tables, as SQLAlchemy Core. SQLite today; the same definitions serve Postgres later.

Times are seconds since the epoch; what is JSON is kept as text. Nothing here is ever deleted by the daemon but `steps`
(a turn's scratch journal, gone when the turn has ended), settled rows of `inbox` and `deliveries` past their keep time,
and conversations that were ordered to be forgotten (`/forget`, `retention.days`).
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()

ROW_ID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up by itself only for plain INTEGER keys."""

sessions = Table(
    "sessions",
    metadata,
    Column("key", String, primary_key=True),
    Column("created_at", Float, nullable=False),
    Column("context_start", ROW_ID, nullable=False, server_default="0", doc="`/clear` hides rows up to this one."),
)

messages = Table(
    "messages",
    metadata,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("session", String, nullable=False),
    Column("turn", String, nullable=False, doc="The inbox id that this belongs to."),
    Column("step", String, nullable=False, doc="The step whose transaction wrote it."),
    Column("role", String, nullable=False, doc="user, assistant, tool_use or tool_result"),
    Column("text", Text, nullable=False),
    Column("name", String, doc="Tool name of tool_use and tool_result."),
    Column("call_id", String, doc="Pairs a tool_use with its tool_result."),
    Column("input", Text, doc="Arguments of a tool_use."),
    Column("is_error", Boolean, nullable=False, server_default="0"),
    Column("images", Text, doc="Pictures of a user message or of a result: [[blob, mime], …]."),
    Column(
        "material",
        Text,
        doc="Of a user's text what was not said now: [[start, end, origin, kind, author], …]; of a result its kind.",
    ),
    Column("hint", Text, doc="What came of a call, in one line for people."),
    Column("call_hint", Text, doc="Beside its result, what a call did, in one line for people."),
    Column("artifacts", Text, doc="What a call kept for people: [[blob, mime, kind, name, size], …]."),
    Column("context", Text, nullable=False, server_default="", doc="Time, sender, channel: sent before a user's text."),
    Column("native_provider", String, doc="Whose native form `native` is."),
    Column("native_schema", Integer),
    Column("native", Text, doc="An answer as its provider wants it replayed: opaque."),
    Column("sender", String, nullable=False, server_default="", doc="Actor key of a user message."),
    Column("created_at", Float, nullable=False),
    Index("messages_by_session", "session", "id"),
    Index("messages_with_images", "session", "id", sqlite_where=text("images IS NOT NULL")),
    Index("messages_with_artifacts", "session", "id", sqlite_where=text("artifacts IS NOT NULL")),
)

compactions = Table(
    "compactions",
    metadata,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("session", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("summary", Text, nullable=False),
    Column("source", String, nullable=False, doc="checkpoint, LLM, fallback model, emergency truncation; cleared"),
    Column("first_kept", ROW_ID, nullable=False, doc="Row id of the first message that the context still holds."),
    Column("tokens_before", Integer, nullable=False),
    Column("tokens_after", Integer, nullable=False),
    Column("retry_owed", Boolean, nullable=False, server_default="0"),
    Column("pays", ROW_ID, doc="The compaction whose summary this one replaces."),
    Column("outside", Text, doc="Sources outside the conversation of what it stands for: [source, …]."),
    Index("compactions_by_session", "session", "id"),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("session", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("covers_to", ROW_ID, nullable=False, doc="Row id of the last message that it covers."),
    Column("tokens", Integer, nullable=False, doc="Size of the context when it was made."),
    Column("body", Text, nullable=False, doc="The Checkpoint: summary, topics, key decisions, open questions."),
    Index("checkpoints_by_session", "session", "id"),
)

usage = Table(
    "usage",
    metadata,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("session", String, nullable=False),
    Column("turn", String, nullable=False),
    Column("purpose", String, nullable=False, doc="answer, summary, checkpoint, flush or sampling"),
    Column("model", String, nullable=False, doc="The model that answered, `provider:name`."),
    Column("input", Integer, nullable=False, doc="Tokens, with what the provider read from and wrote to its cache."),
    Column("output", Integer, nullable=False),
    Column("cache_read", Integer, nullable=False),
    Column("cache_write", Integer, nullable=False),
    Column("cost", Float, doc="US dollars; empty where the price is unknown."),
    Column("created_at", Float, nullable=False),
    Column("person", String, nullable=False, server_default="", doc="Actor key of whoever it was for, for two days."),
    Index("usage_by_session", "session", "id"),
    Index("usage_by_time", "created_at"),
    Index("usage_by_person", "person", "created_at"),
)

session_settings = Table(
    "session_settings",
    metadata,
    Column("session", String, primary_key=True),
    Column("name", String, primary_key=True, doc="model, todos …"),
    Column("value", Text, nullable=False),
)

daemon_facts = Table(
    "daemon_facts",
    metadata,
    Column("name", String, primary_key=True, doc="What the daemon remembers over restarts: the health of summaries …"),
    Column("value", Text, nullable=False),
)

inbox = Table(
    "inbox",
    metadata,
    Column("seq", ROW_ID, primary_key=True, autoincrement=True, doc="Order of arrival."),
    Column("id", String, nullable=False),
    Column("session", String, nullable=False),
    Column("kind", String, nullable=False, doc="message or compact"),
    Column("body", Text, nullable=False, doc="The Inbound."),
    Column("state", String, nullable=False, doc="new, next (it takes another's place), stopping or done"),
    Column("received_at", Float, nullable=False),
    Column("ended_at", Float),
    UniqueConstraint("id", name="inbox_id"),
    Index("inbox_open", "state", "seq"),
)

steps = Table(
    "steps",
    metadata,
    Column("turn", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("state", String, nullable=False, doc="intent, parked or done"),
    Column("output", Text, doc="The outcome; of a parked step the question."),
)

approval_rules = Table(
    "approval_rules",
    metadata,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("question", String, nullable=False, doc="The approval that it was made with."),
    Column("holder", String, nullable=False, doc="Actor key of the person for whom it holds."),
    Column("tool", String, nullable=False),
    Column("place", Text, nullable=False, doc="Containment and workspace that it holds in, as JSON."),
    Column("pattern", Text, nullable=False, doc="What is allowed, as the tool says it."),
    Column("label", Text, nullable=False, doc="The same for people."),
    Column("made_by", String, nullable=False, doc="Actor key of whoever approved."),
    Column("by_owner", Boolean, nullable=False, doc="Whether that was the owner of the state folder."),
    Column("made_at", Float, nullable=False),
    UniqueConstraint("question", "pattern", name="approval_rules_once"),
    Index("approval_rules_by_holder", "holder", "tool"),
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", String, primary_key=True),
    Column("session", String, nullable=False),
    Column("person", String, nullable=False, doc="Actor key of whoever it runs for."),
    Column("label", Text, nullable=False, doc="The command, for people."),
    Column("output", String, nullable=False, doc="Where all that it said is kept."),
    Column("began_at", Float, nullable=False),
    Column("state", String, nullable=False, doc="running, completed, failed, stopped or lost"),
    Column("ended_at", Float),
    Column("code", Integer, doc="Exit code."),
    Column("note", Text, nullable=False),
    Column("told", Boolean, nullable=False, doc="Whether the model knows of its end."),
    Index("tasks_by_session", "session", "person"),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("seq", ROW_ID, primary_key=True, autoincrement=True, doc="Order of delivery within a chat."),
    Column("id", String, nullable=False),
    Column("channel", String, nullable=False),
    Column("chat", String, nullable=False),
    Column("body", Text, nullable=False, doc="The Delivery."),
    Column("state", String, nullable=False, doc="pending, sending, sent or failed"),
    Column("receipt", Text),
    Column("error", Text),
    Column("progress", Text, doc="What is there already of a message in several parts."),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("id", name="deliveries_id"),
    Index("deliveries_open", "state", "seq"),
)

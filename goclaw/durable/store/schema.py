"""The tables, as SQLAlchemy Core, for both stores.

Times are seconds since the epoch; JSON is kept as text. Nothing here is ever deleted by the daemon but `steps`
(a turn's scratch journal, gone when the turn has ended), settled rows of `inbox` and `deliveries` past their keep time,
what channels keep for a few days (`store.channel_state`), and conversations that were ordered to be forgotten
(`/forget`, `retention.days`).

The `sqlite_where` of an index holds for both stores; SQLAlchemy's option for Postgres would import its dialect.
"""

from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Select,
    Table,
    UniqueConstraint,
    bindparam,
    select,
    text,
)

from goclaw.common.config.state import Locality
from goclaw.durable.store.dialect import MOMENT, NAME, NUMBERS, ROW_ID, TEXT, store_time

metadata = MetaData()

LOCALITY = "locality"
"""Key of `Table.info`: which processes of a deployment need the table's rows, a `Locality`."""
MATERIAL_KEY = "material_key"
"""Key for the marks around foreign text (`agent.context.model_messages`): in the file, out of reach of tools."""


def _table(name: str, *items: Column[Any] | Index | UniqueConstraint, **options: Any) -> Table:
    return Table(name, metadata, *items, info={LOCALITY: Locality.SHARED}, **options)


sessions = _table(
    "sessions",
    Column("key", NAME, primary_key=True),
    Column("created_at", Float, nullable=False),
    Column("context_start", ROW_ID, nullable=False, server_default="0", doc="`/clear` hides rows up to this one."),
)

messages = _table(
    "messages",
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("session", NAME, nullable=False),
    Column("turn", NAME, nullable=False, doc="The inbox id that this belongs to."),
    Column("step", NAME, nullable=False, doc="The step whose transaction wrote it."),
    Column("role", NAME, nullable=False, doc="user, assistant, notice, tool_use or tool_result"),
    Column("text", TEXT, nullable=False),
    Column("name", NAME, doc="Tool name of tool_use and tool_result."),
    Column("call_id", NAME, doc="Pairs a tool_use with its tool_result."),
    Column("input", TEXT, doc="Arguments of a tool_use."),
    Column("is_error", Boolean, nullable=False, server_default="0"),
    Column("denied", Boolean, doc="Whether a call was denied; NULL in rows of versions that did not store it."),
    Column("images", TEXT, doc="Pictures and documents of a user message or of a result: [[blob, mime, pages], …]."),
    Column(
        "material",
        TEXT,
        doc="Of a user's text what was not said now: [[start, end, origin, kind, author], …]; of a result its kind.",
    ),
    Column("hint", TEXT, doc="What came of a call, in one line for people."),
    Column("call_hint", TEXT, doc="Beside its result, what a call did, in one line for people."),
    Column(
        "artifacts",
        TEXT,
        doc="What a call or an answer has for people: [[blob, mime, kind, name, size], …], a message's text behind.",
    ),
    Column("context", TEXT, nullable=False, server_default="", doc="Time, sender, channel: sent before a user's text."),
    Column("native_provider", NAME, doc="Whose native form `native` is."),
    Column("native_schema", Integer),
    Column("native", TEXT, doc="An answer as its provider wants it replayed: opaque."),
    Column("sender", NAME, nullable=False, server_default="", doc="Actor key of a user message."),
    Column("created_at", Float, nullable=False),
    Index("messages_by_session", "session", "id"),
    Index("messages_with_images", "session", "id", sqlite_where=text("images IS NOT NULL")),
    Index("messages_with_artifacts", "session", "id", sqlite_where=text("artifacts IS NOT NULL")),
)

compactions = _table(
    "compactions",
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("session", NAME, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("summary", TEXT, nullable=False),
    Column("source", NAME, nullable=False, doc="checkpoint, LLM, fallback model, emergency truncation; cleared"),
    Column("first_kept", ROW_ID, nullable=False, doc="Row id of the first message that the context still holds."),
    Column("tokens_before", Integer, nullable=False),
    Column("tokens_after", Integer, nullable=False),
    Column("retry_owed", Boolean, nullable=False, server_default="0"),
    Column("pays", ROW_ID, doc="The compaction whose summary this one replaces."),
    Column("outside", TEXT, doc="Sources outside the conversation of what it stands for: [source, …]."),
    Index("compactions_by_session", "session", "id"),
)

checkpoints = _table(
    "checkpoints",
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("session", NAME, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("covers_to", ROW_ID, nullable=False, doc="Row id of the last message that it covers."),
    Column("tokens", Integer, nullable=False, doc="Size of the context when it was made."),
    Column("body", TEXT, nullable=False, doc="The Checkpoint: summary, topics, key decisions, open questions."),
    Index("checkpoints_by_session", "session", "id"),
)

usage = _table(
    "usage",
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("session", NAME, nullable=False),
    Column("turn", NAME, nullable=False),
    Column("purpose", NAME, nullable=False, doc="answer, summary, checkpoint, flush or sampling"),
    Column("model", NAME, nullable=False, doc="The model that answered, `provider:name`."),
    Column("input", Integer, nullable=False, doc="Tokens, with what the provider read from and wrote to its cache."),
    Column("output", Integer, nullable=False),
    Column("cache_read", Integer, nullable=False),
    Column("cache_write", Integer, nullable=False),
    Column("cost", Float, doc="US dollars; empty where the price is unknown."),
    Column("created_at", Float, nullable=False),
    Column("person", NAME, nullable=False, server_default="", doc="Actor key of whoever it was for, for two days."),
    Index("usage_by_session", "session", "id"),
    Index("usage_by_time", "created_at"),
    Index("usage_by_person", "person", "created_at"),
)

session_settings = _table(
    "session_settings",
    Column("session", NAME, primary_key=True),
    Column("name", NAME, primary_key=True, doc="model, todos …"),
    Column("value", TEXT, nullable=False),
)

daemon_facts = _table(
    "daemon_facts",
    Column("name", NAME, primary_key=True, doc="What the daemon remembers over restarts: the health of summaries …"),
    Column("value", TEXT, nullable=False),
)

inbox = _table(
    "inbox",
    Column("seq", ROW_ID, primary_key=True, autoincrement=True, doc="Order of arrival."),
    Column("id", NAME, nullable=False),
    Column("session", NAME, nullable=False),
    Column("kind", NAME, nullable=False, doc="message or compact"),
    Column("body", TEXT, nullable=False, doc="The Inbound."),
    Column("state", NAME, nullable=False, doc="new, next (it takes another's place), stopping or done"),
    Column("received_at", Float, nullable=False),
    Column("ended_at", Float),
    UniqueConstraint("id", name="inbox_id"),
    Index("inbox_open", "state", "seq"),
)

steps = _table(
    "steps",
    Column("turn", NAME, primary_key=True),
    Column("name", NAME, primary_key=True),
    Column("state", NAME, nullable=False, doc="intent, parked or done"),
    Column("output", TEXT, doc="The outcome; of a parked step the question."),
)

approval_rules = _table(
    "approval_rules",
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("question", NAME, nullable=False, doc="The approval that it was made with."),
    Column("holder", NAME, nullable=False, doc="Actor key of the person for whom it holds."),
    Column("tool", NAME, nullable=False),
    Column("place", TEXT, nullable=False, doc="Containment and workspace that it holds in, as JSON."),
    Column("pattern", TEXT, nullable=False, doc="What is allowed, as the tool says it."),
    Column("label", TEXT, nullable=False, doc="The same for people."),
    Column("made_by", NAME, nullable=False, doc="Actor key of whoever approved."),
    Column("by_owner", Boolean, nullable=False, doc="Whether that was the owner of the state folder."),
    Column("made_at", Float, nullable=False),
    UniqueConstraint("question", "pattern", name="approval_rules_once"),
    Index("approval_rules_by_holder", "holder", "tool"),
)

tasks = _table(
    "tasks",
    Column("id", NAME, primary_key=True),
    Column("session", NAME, nullable=False),
    Column("person", NAME, nullable=False, doc="Actor key of whoever it runs for."),
    Column("label", TEXT, nullable=False, doc="The command, for people."),
    Column("output", NAME, nullable=False, doc="Where all that it said is kept."),
    Column("began_at", Float, nullable=False),
    Column("state", NAME, nullable=False, doc="running, completed, failed, stopped or lost"),
    Column("ended_at", Float),
    Column("code", Integer, doc="Exit code."),
    Column("note", TEXT, nullable=False),
    Column("told", Boolean, nullable=False, doc="Whether the model knows of its end."),
    Index("tasks_by_session", "session", "person"),
)

deliveries = _table(
    "deliveries",
    Column("seq", ROW_ID, primary_key=True, autoincrement=True, doc="Order of delivery within a chat."),
    Column("id", NAME, nullable=False),
    Column("channel", NAME, nullable=False),
    Column("chat", NAME, nullable=False),
    Column("body", TEXT, nullable=False, doc="The Delivery."),
    Column("state", NAME, nullable=False, doc="pending, sending, sent or failed"),
    Column("receipt", TEXT),
    Column("error", TEXT),
    Column("progress", TEXT, doc="What is there already of a message in several parts."),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("id", name="deliveries_id"),
    Index("deliveries_open", "state", "seq"),
)

schedules = _table(
    "schedules",
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("name", NAME, nullable=False),
    Column("person", NAME, nullable=False, doc="Actor key of its maker."),
    Column("body", TEXT, nullable=False, doc="The Job."),
    Column("state", NAME, nullable=False, doc="active, paused, stopped or done"),
    Column("next", Float, doc="When it is due; empty unless it is active."),
    Column("running", NAME, nullable=False, server_default="", doc="The turn of its run that has not ended."),
    Column("failures", Integer, nullable=False, server_default="0", doc="Failed runs since one that went well."),
    Column("note", TEXT, nullable=False, server_default="", doc="Why it was stopped, for people."),
    Column("made_at", Float, nullable=False),
    UniqueConstraint("person", "name", name="schedules_name"),
    Index("schedules_by_next", "next", sqlite_where=text("next IS NOT NULL")),
    Index("schedules_by_person", "person"),
    sqlite_autoincrement=True,  # ids of runs begin with the job's: one of a job that is gone must not come again
)

schedule_runs = _table(
    "schedule_runs",
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("job", ROW_ID, nullable=False),
    Column("due", Float, nullable=False),
    Column("state", NAME, nullable=False, doc="running, done, failed, stopped or missed"),
    Column("turn", NAME, nullable=False, doc="The id of its turn or delivery."),
    Column("began_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("text", TEXT, nullable=False, server_default="", doc="The beginning of its answer, or what went wrong."),
    Column("cost", Float, doc="US dollars."),
    UniqueConstraint("job", "due", name="schedule_runs_once"),
    Index("schedule_runs_by_turn", "turn"),
)

held_messages = _table(
    "held_messages",
    Column("seq", ROW_ID, primary_key=True, autoincrement=True, doc="Order of arrival."),
    Column("id", NAME, nullable=False, doc="The id of the delivery."),
    Column("session", NAME, nullable=False),
    Column("person", NAME, nullable=False, doc="Actor key of the person for whom it was made."),
    Column("chat", NAME, nullable=False, doc="Channel, chat and thread."),
    Column("body", TEXT, nullable=False, doc="The Delivery."),
    Column("held_at", Float, nullable=False),
    Column("until", Float, doc="When quiet hours end; empty: it has gone."),
    UniqueConstraint("id", name="held_messages_id"),
    Index("held_messages_by_until", "until", sqlite_where=text("until IS NOT NULL")),
)

media_groups = _table(
    "media_groups",
    Column("name", NAME, primary_key=True, doc="The id of the message that it becomes."),
    Column("chat", ROW_ID, nullable=False),
    Column("sender", ROW_ID, nullable=False),
    Column("members", NUMBERS, doc="The ids of its messages, once these are decided."),
    Column("is_handed_over", Boolean, nullable=False, server_default="0", doc="Whether the inbox has it, or nobody."),
    Column("changed_at", MOMENT, nullable=False, server_default=store_time()),
    Index("media_groups_of_chat", "chat"),
)

media_parts = _table(
    "media_parts",
    Column("name", NAME, ForeignKey("media_groups.name", ondelete="CASCADE"), primary_key=True),
    Column("part", ROW_ID, primary_key=True, doc="The id of the message."),
    Column("message", TEXT, nullable=False, doc="As its channel got it, as JSON."),
)

previews = _table(
    "previews",
    Column("channel", NAME, primary_key=True),
    Column("key", NAME, primary_key=True, doc="A turn, or one of its deliveries."),
    Column("session", NAME, nullable=False),
    Column("message", ROW_ID, nullable=False, doc="The message that shows it, or a mark of the channel's."),
    Column("noted_at", MOMENT, nullable=False, server_default=store_time()),
    Index("previews_of_session", "session"),
)

file_labels = _table(
    "file_labels",
    Column("folder", NAME, primary_key=True, doc="The workspace."),
    Column("path", NAME, primary_key=True, doc="In it; `.`: all of it."),
    Column("stamp", NAME, nullable=False, doc="Of the file when it was labelled: it counts no more once that differs."),
)


def open_turns(session: str) -> Select[tuple[str]]:
    """Return a selection of the ids of turns that have not ended. `session`: the name of the parameter."""
    return select(inbox.c.id).where(inbox.c.session == bindparam(session), inbox.c.state != "done")

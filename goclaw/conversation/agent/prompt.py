"""The system prompt: who the agent is, and the workspace's own files; and their share of a window, with the tools.

The text changes only when a file changes, so that providers can cache it. What changes with every message (time,
sender, channel) travels with that message instead, see `envelope`. A turn, `/context`, the doctor, the setup and the
daemon's start all measure with `measured_budget`, so that they agree.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Generic, TypeVar

from goclaw.common.config.agents import AgentSettings
from goclaw.common.config.schema import CompactionSettings, Config
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.events import Inbound
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask_known
from goclaw.common.core.supervise import result_of
from goclaw.common.specs import ToolSpec
from goclaw.common.workspace import PROMPT_FILES, SHARED, ApprovedFiles, FileChange, Workspace
from goclaw.common.workspace.approved_files import FILE_LIMIT, MAX_BYTES, effective_text
from goclaw.conversation.agent.context.budget import ContextBudget, Share, reserve
from goclaw.conversation.agent.context.model_messages import fence, plain
from goclaw.conversation.agent.kinds import AGENT_TOOL, Kinds
from goclaw.errors import ToolError
from goclaw.llm.token_counts import estimate_text, estimate_tools
from goclaw.tools.toolkit.agent_tasks import TEAM_CREATE
from goclaw.tools.toolkit.offering import Offering, Offerings, profile_of

T = TypeVar("T")

FILES = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", "BOOTSTRAP.md", "MEMORY.md")
"""Files read from the workspace, in this order (docs/context.md)."""

MATERIAL = "the people of this workspace"
"""Author of the files that are no prompt files: each of them may have written there."""
NAME_LIMIT = 64
CONTEXT, CONTEXT_END = "<context>", "</context>"
"""The tags around GoClaw's own words at the beginning of a person's message."""

BASE = """You are the assistant behind GoClaw: people write to you from their chats. Do what they ask with your tools;
what is in a file you know only after you have read it. If a call fails, try another way. Then say briefly what came of
it, in the language of the person. GoClaw writes the line in <context> marks: the time and who speaks."""
"""GoClaw's own lines. Marks are explained where the first one stands (`context.model_messages`)."""

OF_ONE_PERSON = f"""The workspace belongs to the person who writes, and no other person reads it. Its folder `{SHARED}/`
belongs to everybody here: put there what others are to have; what you find there may be written by others."""

SETTLED_SECONDS = 2.0
"""A file that is younger when it is read may change again under the same stamp: FAT counts in two seconds."""

_Stamp = tuple[int, int, int, int]


@record
class _Composed:
    """A prompt, and the files that it was made of."""

    stamps: Mapping[str, _Stamp]
    text: str
    settled: bool
    """Whether the stamps will tell every change; see `SETTLED_SECONDS`."""
    basis: tuple[object, ...]
    """Further facts that the prompt depends on; see `UsedFiles.basis`. Empty: nothing."""


AskForApproval = Callable[[Sequence[FileChange]], Awaitable[None]]


async def unasked(changes: Sequence[FileChange]) -> None:
    """Ask for no approval: where no person can be reached."""


class SharedRead(Generic[T]):
    """Reads something by its name, in threads, shared by all who ask for the same at the same moment.

    Fifty turns that begin together read the same few stamps. Each hop to a thread and back waits for the interpreter's
    lock, milliseconds while the loop is busy: one hop serves them all. A read begins after all have asked whom it
    answers, so that none gets older news.
    """

    def __init__(self, read: Callable[[str], T]) -> None:
        """`read` runs in a thread."""
        self._read = read
        self._asked: dict[str, asyncio.Future[T]] = {}
        """The reads that have not begun."""

    async def of(self, name: str) -> T:
        """Return the result of `read` for the name; its errors are raised."""
        asked = self._asked.get(name)
        if asked is None:
            loop = asyncio.get_running_loop()
            asked = self._asked[name] = loop.create_future()
            loop.call_soon(self._start, name, asked)
        return await result_of(asked)

    def _start(self, name: str, asked: "asyncio.Future[T]") -> None:
        del self._asked[name]
        asyncio.get_running_loop().run_in_executor(None, self._read, name).add_done_callback(
            lambda read: _passed_on(read, asked)
        )


def _passed_on(read: "asyncio.Future[T]", asked: "asyncio.Future[T]") -> None:
    if read.cancelled():
        asked.cancel()
    elif error := read.exception():
        asked.set_exception(error)
        asked.exception()  # the callers may all have gone
    else:
        asked.set_result(read.result())


class SystemPrompt:
    """The system prompt of each workspace, kept until one of its files changes."""

    def __init__(
        self, clock: Clock | None = None, approved: ApprovedFiles | None = None, ask: AskForApproval = unasked
    ) -> None:
        """Begin with no workspace.

        Args:
            clock: says how old files are.
            approved: knows which texts of prompt files count; None: those on the disk.
            ask: asks for the approval of changes; the same ones may come again.
        """
        self._clock = clock or RealClock()
        self._approved = approved or ApprovedFiles()
        self._ask = ask
        self._known: dict[Path, _Composed] = {}
        self._stamps = SharedRead(_stamps)

    async def system(self, workspace: Workspace) -> str:
        """Return the system prompt for `workspace`."""
        now = self._clock.now()
        stamps, changed = await self._stamps.of(str(workspace.root))
        known = self._known.get(workspace.root)
        if (
            known is None
            or not known.settled
            or known.stamps != stamps
            or (known.basis and known.basis != self._approved.basis(workspace.root))
        ):
            found = await found_files(workspace, list(stamps))
            used = await self._approved.texts_to_use(workspace.root, found)
            settled = now - changed >= SETTLED_SECONDS
            known = self._known[workspace.root] = _Composed(
                stamps, _compose(found, used.texts, own=workspace.shared is not None), settled, used.basis
            )
            if used.waiting:
                await self._ask(used.waiting)
        return known.text


def _stamps(root: str) -> tuple[dict[str, _Stamp], float]:
    """Return the existing files, each with the stamp that changes with it, and when one of them changed last."""
    found: dict[str, _Stamp] = {}
    changed = 0.0
    for name in FILES:
        try:
            # Of what a link leads to: the link itself does not change with it.
            status = os.stat(f"{root}/{name}")  # noqa: PTH116 -- a turn has eight, and Path costs more
        except OSError:
            continue
        found[name] = _stamp(status)
        changed = max(changed, status.st_mtime, status.st_ctime)
    return found, changed


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


async def found_files(workspace: Workspace, names: Sequence[str] = FILES) -> Mapping[str, bytes]:
    """Return the content of those of the files that exist, as far as a prompt can hold it."""
    found: dict[str, bytes] = {}
    for name in names:
        try:
            # The same text for all users: a link to one person's notes is no part of it.
            found[name] = await workspace.seen_by("").use(name, lambda opened: opened.file.read(MAX_BYTES))
        except ToolError:
            continue  # not a regular file, or gone since: the prompt does without it
    return found


def _compose(found: Mapping[str, bytes], approved: Mapping[str, str], *, own: bool) -> str:
    """Return the prompt: prompt files as approved, the others as found, as material; `own`: of a person's workspace."""
    parts, explained = [BASE, *([OF_ONE_PERSON] if own else [])], False
    for name in FILES:
        text = mask_known(
            approved.get(name, "") if name in PROMPT_FILES else effective_text(found.get(name, b""))
        ).strip()
        if len(text) > FILE_LIMIT:
            text = f"{text[:FILE_LIMIT]}\n[cut here: {name} is longer than {FILE_LIMIT:,} characters]"
        if text:
            is_material = name not in PROMPT_FILES
            parts.append(f"# {name}\n\n{fence(text, MATERIAL, explain=not explained) if is_material else text}")
            explained = explained or is_material
    return "\n\n".join(parts)


def envelope(inbound: Inbound) -> str:
    """Return the line before a person's text: time, zone, sender, channel, and the message's id if there is one."""
    sender = plain(inbound.actor.name, "<>", NAME_LIMIT) or inbound.actor.key
    # `telegram:<chat>:<id>`: what the tool `message` takes to react to this very message.
    number = inbound.ref.rpartition(":")[2]
    message = f"; message id {number}" if number.isascii() and number.isdigit() else ""
    return f"{CONTEXT}{_moment(inbound.received_at)}; {sender} via {inbound.address.channel}{message}{CONTEXT_END}"


@lru_cache(maxsize=256)
def _moment(at: float) -> str:
    """Return a time in words. It is asked for twice in a turn: for the message's row, and for the model."""
    return f"{datetime.fromtimestamp(at).astimezone():%A %Y-%m-%d %H:%M %Z}"


def write_templates(root: Path) -> list[str]:
    """Fill a new workspace with short starting files; returns their names. An existing file is never touched."""
    written = []
    for name in FILES:
        template = files("goclaw.conversation.agent") / "templates" / name
        target = root / name
        if template.is_file() and not target.exists():
            target.write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
            written.append(name)
    return written


def starts_agents(tools: Sequence[ToolSpec]) -> bool:
    """Whether a model with these tools has to know which kinds of agents there are."""
    return any(spec.name in (AGENT_TOOL, TEAM_CREATE) for spec in tools)


def system_prompt(base: str, settings: AgentSettings, offering: Offering, *about: str) -> str:
    """Return the whole system prompt of an agent.

    Args:
        base: the common prompt of the workspace's agents.
        settings: the agent's own.
        offering: the tools in its requests.
        about: texts on its task and on other agents; empty ones are left out.
    """
    return "\n\n".join(filter(None, (base, *about, settings.prompt.strip(), offering.index)))


def measured_budget(
    spec: str, window: int, system: str, offering: Offering, compaction: CompactionSettings, scale: float = 1.0
) -> ContextBudget:
    """Estimate the share of a model's window that a request uses before the conversation begins.

    Args:
        spec: the model, `provider:name`.
        window: tokens of its window.
        system: the whole system prompt, its index included.
        offering: the tools that it is shown.
        compaction: says how much stays free for the answer.
        scale: by how much estimates are off for the model.
    """
    index = int(scale * estimate_text(offering.index))
    return ContextBudget(
        spec=spec,
        window=window,
        prompt=int(scale * estimate_text(system)) - index,
        index=Share(index, offering.index.count("\n")),
        tools=int(scale * estimate_tools(offering.tools)),
        reserve=reserve(window, compaction),
        profile=offering.profile,
    )


def budget_of_a_new_conversation(
    config: Config, spec: str, window: int, base: str, usable: Sequence[ToolSpec]
) -> ContextBudget:
    """Estimate the main agent's first request, where no daemon runs.

    Args:
        config: the configuration.
        spec: the model, `provider:name`.
        window: tokens of its window.
        base: the common prompt of the workspace's agents.
        usable: the tools that the agent may use.
    """
    settings = config.agents.main
    offering = Offerings().of(usable, usable, profile_of(config, settings, spec, window), settings.tools)
    kinds = Kinds(config).format_list(lambda name: True) if starts_agents(usable) else ""
    return measured_budget(spec, window, system_prompt(base, settings, offering, kinds), offering, config.compaction)

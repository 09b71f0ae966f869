"""The keys of `policy`, `roles`, `pairing`, `audit`, `limits` and `replica`: permissions, limits, several gateways."""

from ipaddress import ip_address
from typing import Any, Literal

from pydantic import Field, field_validator

from goclaw.common.config.section import Section
from goclaw.common.config.values import Duration, Guard, Mode, Names, ReplicaName, Row, Selection, Workplace
from goclaw.common.core.selection import parse

ADMIN, USER = "admin", "user"
"""The predefined roles: `admin` may do everything, `user` is the role of users without one."""
MAX_PORT = 65_535


class PolicySettings(Section):
    """Rules for tool calls: run, ask or refuse."""

    mode: Mode = Field(
        "default",
        description="Permission mode of sessions without a choice by `/mode`. `plan` ends when a plan is approved, or "
        "by an admin.",
    )
    allow_bypass: bool = Field(False, description="Whether admins may use the mode `bypass`.")
    stricter: dict[Row, Literal["ask", "refuse"]] = Field(
        default_factory=dict,
        description="Stricter answers for rows of the table in docs/configuration.md: `medium: ask`, `high: refuse` …",
    )
    auto_allow: Selection = Field(
        (),
        description="Tools that run without asking although their row asks. Critical calls (no sandbox, destructive, "
        "with confirmation) need the tool's exact name. Any stricter setting wins.",
    )
    always_ask: Selection = Field((), description="Tools that always ask, whatever the mode and the row.")
    deny_ends_turn: Selection = Field(
        (), description="Tools whose refused or denied call ends the turn, so that the model cannot try another way."
    )
    other_chats: Literal["ask", "deny"] = Field(
        "ask", description="What happens to messages of the agent to other chats."
    )
    approval_minutes: int = Field(
        30, ge=1, le=1_440, description="Minutes to wait for an approval, and for which a given approval is valid."
    )

    @field_validator("auto_allow")
    @classmethod
    def _says_what_runs(cls, selection: tuple[str, ...]) -> tuple[str, ...]:
        wanted, unwanted = parse(selection)
        if unwanted and not wanted:
            raise ValueError("should name what runs without asking, not only exceptions")
        return selection


class PairingSettings(Section):
    """Strangers who write to the bot in private: they get a code, and an admin lets them in by it."""

    enabled: bool = Field(False, description="Whether strangers get a code; otherwise they get no answer.")
    role: str = Field(
        "guest",
        description="What approved people get unless `/pair approve CODE PRESET` says otherwise: a preset (`adult`, "
        "`child`, `guest`) or another role; never `admin`.",
    )
    tell_admins: bool = Field(
        True, description="Whether admins hear that a stranger got a code: once per stranger and day."
    )
    allowed_tools: Selection | None = Field(
        None, description="`allowedTools` in users.json of approved people; not set: as the role allows."
    )
    waiting: int = Field(20, ge=1, le=1_000, description="Maximum open codes, each valid for one hour.")

    @field_validator("role")
    @classmethod
    def _no_admin(cls, role: str) -> str:
        if role == ADMIN or not role.strip():
            raise ValueError(
                "should be a preset (`adult`, `child`, `guest`), `user` or one of your `roles`; add admins by hand in "
                "users.json"
            )
        return role


def datagram_address(text: str) -> str | tuple[str, int]:
    """Return where datagrams go: the path of a Unix socket, or an IP address and a UDP port.

    Raises:
        ValueError: the text is neither.
    """
    if text.startswith("/"):
        return text
    host, _, port = text.rpartition(":")
    if not 0 < int(port) <= MAX_PORT:
        raise ValueError("no port")
    return str(ip_address(host.strip("[]"))), int(port)


class AuditSettings(Section):
    """The audit log: who did what, and by which rule it was allowed. `goclaw audit` shows it."""

    enabled: bool = Field(True, description="Whether it is written.")
    file_mb: int = Field(10, ge=1, le=1_000, description="Size at which GoClaw starts a new file.")
    files: int = Field(10, ge=1, le=1_000, description="Number of older files to keep.")
    sink: Literal["file", "syslog"] = Field(
        "file", description="`syslog`: each line also goes to syslog, as it is written to the file."
    )
    syslog: str = Field(
        "/dev/log", description="The address of syslog: the path of its socket, or `IP-ADDRESS:PORT` for UDP."
    )

    @field_validator("syslog")
    @classmethod
    def _is_an_address(cls, address: str) -> str:
        try:
            datagram_address(address)
        except ValueError:
            words = "should be the path of a socket, like /dev/log, or IP-ADDRESS:PORT, like 192.0.2.7:514"
            raise ValueError(words) from None
        return address


class DailyLimits(Section):
    """What a person may use in a day."""

    daily_tokens: int | None = Field(
        None,
        ge=1,
        description="Tokens per person and day, from midnight on, in all sessions together; roles override `limits`, "
        "and of several roles the lowest counts.",
    )
    daily_cost: float | None = Field(
        None, gt=0, description="US dollars per person and day, if prices are known, as for `daily_tokens`."
    )


class RoleSettings(DailyLimits):
    """Rights of a role in users.json; `allowedTools` of an entry narrows them further."""

    tools: Selection | None = Field(
        None, description="Exactly these tools: names, `tag:x`, `set:y`; a leading `-` excludes. Not set: every tool."
    )
    inputs: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Fixed arguments, by tool: `{exec: {timeout: 10}}`. They override the model's. Several roles "
        "combine.",
    )
    commands: Names | None = Field(None, description="Exactly these slash commands; not set: every one.")
    agents: Names | None = Field(
        None,
        description="Exactly these agents may answer them or work for them: `main`, names in `agents.kinds`; not set: "
        "every one.",
    )
    sessions: Literal["own", "read", "all"] = Field(
        "own", description="Access to conversations: their own, read all, or read and control all."
    )
    approves: Literal["none", "own", "all"] = Field(
        "own", description="Approvals they may give: none, in their own turns, or in everybody's."
    )
    other_chats: bool = Field(True, description="Whether the agent may write to other chats for them (after approval).")
    always_ask: Selection = Field(
        (),
        description="Tools that always ask when these people cause the call, whatever the mode and the row. Several "
        "roles combine.",
    )
    guard: Guard | None = Field(
        None,
        description="What happens to a call that could carry private data to strangers, or that stays or acts later, "
        "after the agent has read what others wrote: `ask` (the default), `deny`, or `off`. Of several roles the "
        "strictest counts. See docs/security.md.",
    )
    workspace: Workplace | None = Field(
        None,
        description="`own`: a separate workspace, as with `workspaces: per-person`; `shared`: the configured one. Not "
        "set: as `workspaces` says. `own` in one role overrides `shared` in another.",
    )


class LimitSettings(DailyLimits):
    """Limits of one turn, and of what a person may use in a day; each ends it with a sentence; the log has the key."""

    tool_calls: int = Field(50, ge=1, description="Tool calls in one turn.")
    failed_calls: int = Field(5, ge=1, description="Tool calls that fail one after the other.")
    repeated_calls: int = Field(3, ge=1, description="Maximum identical tool calls in a row.")
    turn_seconds: Duration = Field(900, gt=0, description="Wall-clock seconds of one turn, or `15m`.")
    turn_tokens: int | None = Field(
        None, ge=1, description="Maximum tokens of one turn: prompts and answers of all requests."
    )
    turn_cost: float | None = Field(
        None, gt=0, description="US dollars that one turn may cost, where prices are known."
    )
    agent_depth: int = Field(
        2, ge=0, description="How deep agents may start other agents (tool `agent`); 0: not at all."
    )
    worktrees: int = Field(
        8, ge=1, description="Maximum git worktrees of agents in one workspace (tool `agent`, `worktree`)."
    )
    agents_at_once: int = Field(4, ge=1, description="Maximum agents of one conversation that work at the same time.")
    agents_per_turn: int = Field(
        16, ge=1, description="Maximum agents started in one turn, including those started by agents."
    )
    continue_cut: bool = Field(
        False, description="Ask the model to continue an answer that its output limit cut, at most three times."
    )
    queued_messages: int = Field(100, ge=1, description="Maximum waiting messages in one session.")
    stuck_minutes: float = Field(
        10, ge=0, description="Report a turn in which nothing has happened for this long; it continues. 0: never."
    )


class ReplicaSettings(Section):
    """This gateway among those that share `store`."""

    name: ReplicaName = Field(
        "", description="Its name in `/status` and `goclaw doctor`; not set: the name of the machine."
    )
    stall_seconds: float = Field(
        4,
        ge=1,
        le=120,
        description="Seconds without a heartbeat after which a gateway counts as dead and others continue its "
        "conversations; it sends four in that time. All gateways of a store need the same value.",
    )
    workspaces: Literal["shared", "own"] = Field(
        "shared",
        description="`shared`: all gateways see the same folders (NFS, CephFS, one disk), so each may work on every "
        "conversation. `own`: each has its own, and a conversation stays with its first gateway; this "
        "needs a unique `replica.name`. All gateways of a store need the same value.",
    )

"""The keys of `policy`, `roles`, `audit`, `limits` and `replica`: permissions, limits of use, and several gateways."""

from ipaddress import ip_address
from typing import Any, Literal

from pydantic import Field, field_validator

from goclaw.common.config.section import Section
from goclaw.common.config.values import Duration, Mode, Names, ReplicaName, Row, Selection, Workplace
from goclaw.common.core.selection import parsed

ADMIN, USER = "admin", "user"
"""The predefined roles: `admin` may do everything, `user` is the role of users without one."""
MAX_PORT = 65_535


class PolicySettings(Section):
    """Rules for tool calls: run, ask or refuse."""

    mode: Mode = Field(
        "default",
        description="Permission mode of every session for which `/mode` chose none. `plan` is left when a plan was "
        "approved, or by an admin.",
    )
    allow_bypass: bool = Field(False, description="Whether admins may use the mode `bypass`.")
    stricter: dict[Row, Literal["ask", "refuse"]] = Field(
        default_factory=dict,
        description="Stricter answers per row of the table in docs/configuration.md: `medium: ask`, `high: refuse` …",
    )
    auto_allow: Selection = Field(
        (),
        description="Tools that run without asking although their row asks. What is critical (no sandbox, destructive, "
        "wants to be confirmed) only by its very name. Whatever else is stricter wins.",
    )
    always_ask: Selection = Field((), description="Tools that are asked for always, whatever the mode and the row.")
    deny_ends_turn: Selection = Field(
        (), description="Tools of which a refused or denied call ends the turn: the model may not try otherwise."
    )
    other_chats: Literal["ask", "deny"] = Field("ask", description="Messages of the agent to chats other than its own.")
    approval_minutes: int = Field(
        30, ge=1, le=1_440, description="Minutes that an approval is waited for, and that one which was given holds."
    )

    @field_validator("auto_allow")
    @classmethod
    def _says_what_runs(cls, selection: tuple[str, ...]) -> tuple[str, ...]:
        wanted, unwanted = parsed(selection)
        if unwanted and not wanted:
            raise ValueError("should name what runs without asking, not only exceptions")
        return selection


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
    file_mb: int = Field(10, ge=1, le=1_000, description="Size at which a new file is begun.")
    files: int = Field(10, ge=1, le=1_000, description="Files that are kept besides the newest.")
    sink: Literal["file", "syslog"] = Field(
        "file", description="`syslog`: each line also goes to syslog, as it is written to the file."
    )
    syslog: str = Field(
        "/dev/log", description="Where syslog listens: the path of its socket, or `IP-ADDRESS:PORT`, which is UDP."
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


class RoleSettings(Section):
    """Rights of a role in users.json; `allowedTools` of an entry narrows them further."""

    tools: Selection | None = Field(
        None,
        description="Exactly these tools: names, `tag:x`, `set:y`; with `-` before it, what is left out. "
        "Not set: every tool.",
    )
    inputs: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Arguments that are fixed, by tool: `{exec: {timeout: 10}}`. They take the place of what the model "
        "says. With several roles, those of all of them.",
    )
    commands: Names | None = Field(None, description="Exactly these slash commands; not set: every one.")
    agents: Names | None = Field(
        None,
        description="Exactly these agents answer them, or are started for them: `main`, names of `agents.kinds`; not "
        "set: every one.",
    )
    sessions: Literal["own", "read", "all"] = Field(
        "own", description="Which conversations: their own, every one to read, or every one to read and steer."
    )
    approves: Literal["none", "own", "all"] = Field(
        "own", description="Which questions may be answered: none, those of their own turns, or everybody's."
    )
    other_chats: bool = Field(True, description="Whether the agent may write to other chats for them (it asks first).")
    always_ask: Selection = Field(
        (),
        description="Tools that are asked for always when these people cause the call, whatever the mode and the row; "
        "of several roles, those of all of them.",
    )
    daily_tokens: int | None = Field(
        None,
        ge=1,
        description="Tokens that each of these people may use in a day, in place of `limits.daily_tokens`; of several "
        "roles the lowest.",
    )
    daily_cost: float | None = Field(
        None,
        gt=0,
        description="US dollars that each of these people may use in a day, in place of `limits.daily_cost`; of "
        "several roles the lowest.",
    )
    workspace: Workplace | None = Field(
        None,
        description="`own`: a workspace of their own, as with `workspaces: per-person`; `shared`: the configured one. "
        "Not set: what `workspaces` says. `own` of one role goes before `shared` of another.",
    )


class LimitSettings(Section):
    """Limits of one turn, and of what a person may use in a day; each ends it with a sentence that names its key."""

    tool_calls: int = Field(50, ge=1, description="Tool calls in one turn.")
    failed_calls: int = Field(5, ge=1, description="Tool calls that fail one after the other.")
    repeated_calls: int = Field(3, ge=1, description="Identical tool calls one after the other.")
    turn_seconds: Duration = Field(900, gt=0, description="Wall-clock seconds of one turn, or `15m`.")
    turn_tokens: int | None = Field(None, ge=1, description="Tokens of one turn, prompts and answers of all requests.")
    turn_cost: float | None = Field(
        None, gt=0, description="US dollars that one turn may cost, where prices are known."
    )
    daily_tokens: int | None = Field(
        None, ge=1, description="Tokens that one person may use in a day, from midnight on, in all sessions together."
    )
    daily_cost: float | None = Field(
        None, gt=0, description="US dollars that one person may use in a day, where prices are known."
    )
    agent_depth: int = Field(
        2, ge=0, description="How deep agents may start agents for a task (tool `agent`); 0: none are started."
    )
    worktrees: int = Field(
        8, ge=1, description="Git worktrees of agents that are kept in one workspace (tool `agent`, `worktree`)."
    )
    agents_at_once: int = Field(4, ge=1, description="Agents of one conversation that work at the same time.")
    agents_per_turn: int = Field(16, ge=1, description="Agents that are started in one turn, those of agents included.")
    continue_cut: bool = Field(
        False, description="Ask the model to go on where its output limit cut an answer, at most three times."
    )
    queued_messages: int = Field(100, ge=1, description="Messages that may wait in one session.")
    stuck_minutes: float = Field(
        10, ge=0, description="A turn in which nothing happens for so long is reported, and goes on; 0: never."
    )


class ReplicaSettings(Section):
    """This gateway among those that share `store`."""

    name: ReplicaName = Field(
        "", description="What people read in `/status` and `goclaw doctor`; not set: the name of the machine."
    )
    stall_seconds: float = Field(
        4,
        ge=1,
        le=120,
        description="Seconds without a heartbeat, which comes four times in that time, after which a gateway counts as "
        "dead and others go on with its conversations. All gateways of a store need the same.",
    )
    workspaces: Literal["shared", "own"] = Field(
        "shared",
        description="`shared`: all gateways see the same folders (NFS, CephFS, one disk), so each may work on every "
        "conversation. `own`: each has its own, and a conversation stays with the gateway that had it first; it needs "
        "`replica.name`, of which there may be only one. All gateways of a store need the same.",
    )

"""The keys of `tools`: each tool's own section, tools that are a command each (`tools.cli`), and sets of tools."""

import re
import shlex
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from goclaw.common.config.exports import PublishSettings, refuse_built_in
from goclaw.common.config.mcp import PinnedSets, ServerName
from goclaw.common.config.registries import FromRegistrySettings
from goclaw.common.config.section import Section
from goclaw.common.config.values import (
    Duration,
    Environment,
    Folder,
    Host,
    Names,
    Ports,
    Program,
    Secret,
    Selection,
    ToolProfile,
    Url,
    Words,
    require,
)
from goclaw.common.core.selection import BUILT_IN, cycle

_HOST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_EXPANDED = re.compile(r"""[%$"'\\~#\s]""")
"""Characters that `ssh` expands in file names."""

FOR_PEOPLE_ONLY = (
    *("approvals", "approve", "clear", "cleartool", "compact", "deny", "forget", "mode", "new", "pair", "pause"),
    *("remind", "resume", "schedule", "start", "stop", "tool"),
)
"""They decide what the agent may do, or wait for the very turn that gives them."""

MAX_NAME = 64
"""Characters of a tool's name that every provider takes."""
_SET = re.compile(r"(?:[a-z][a-z0-9_-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*")


class ReadSettings(Section):
    """The `read` tool."""

    max_lines: int = Field(500, ge=1, description="Lines returned if the call sets no limit.")
    max_bytes: int = Field(50_000, ge=1_000, description="Maximum bytes returned.")
    max_file_mb: int = Field(
        20, ge=1, description="Larger notebooks and UTF-16 texts are refused; other texts have no limit."
    )


class WriteSettings(Section):
    """The `write` tool."""

    review: bool = Field(
        False,
        description=(
            "Every change to a file (write, edit, multi_edit, notebook_edit) waits for approval and shows a diff."
        ),
    )


class EditSettings(Section):
    """The `edit` and `multi_edit` tools."""

    allow_fuzz_on_edits: bool = Field(
        True, description="Also find text with different white space or indentation; otherwise only the exact text."
    )


class SearchSettings(Section):
    """The `search` and `glob` tools."""

    threads: int = Field(2, ge=1, le=64, description="Files searched at the same time.")
    timeout: float = Field(
        10, gt=0, le=300, description="Time limit of a search in seconds; results up to then are returned."
    )
    max_file_mb: int = Field(
        20, ge=1, le=1_000, description="Larger files in a folder are listed but not searched, unless named as `path`."
    )


class WebFetchSettings(Section):
    """The `web_fetch` tool."""

    timeout: Duration = Field(20, le=120, description="Time limit of a page in seconds, including redirects.")
    max_mb: float = Field(5, gt=0, le=50, description="Maximum size of a page.")
    cache_minutes: float = Field(15, ge=0, le=1_440, description="How long a page is kept in memory; 0: not at all.")
    cache_mb: float = Field(20, ge=0, le=1_024, description="Memory for such pages.")


class WebSearchSettings(Section):
    """The `web_search` tool."""

    provider: Literal["searxng", "brave", "tavily", "duckduckgo"] | None = Field(
        None, description="The search provider; not set: no web search."
    )
    url: Url | None = Field(
        None, description="The address of your SearXNG; for other providers only to override theirs."
    )
    api_key: Secret | None = Field(
        None, description="Key for Brave or Tavily; BRAVE_API_KEY and TAVILY_API_KEY work, too."
    )
    count: int = Field(10, ge=1, le=20, description="Number of results if the agent asks for no number.")
    timeout: Duration = Field(15, le=120, description="Time limit of a search in seconds.")


def _refuse_expansion(path: Path) -> Path:
    if found := _EXPANDED.search(str(path)):
        raise ValueError(f"contains {found.group()!r}, which has a special meaning for ssh: choose another place")
    return path


SshFile = Annotated[Folder, AfterValidator(_refuse_expansion)]


class TasksSettings(Section):
    """Commands in the background."""

    per_session: int = Field(8, ge=0, le=100, description="Maximum running at once in one conversation; 0: none.")
    total: int = Field(32, ge=0, le=1_000, description="Maximum running at once in all.")
    minutes: float = Field(60, gt=0, le=10_080, description="Time limit of one; a call may ask for less.")
    output_mb: int = Field(16, ge=1, le=1_024, description="Maximum kept output of one.")


class SshHost(Section):
    """One host."""

    host: Host = Field(description="Name or address.", examples=["web1.example.org"])
    port: int = Field(22, ge=1, le=65_535, description="Port of its sshd.")
    user: Annotated[
        str,
        require(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", "should be the name of a user: letters, digits, `_`, `.` and `-`"),
    ] = Field(description="The user that runs commands there.", examples=["deploy"])
    identity_file: SshFile = Field(
        description="Private key without a passphrase, outside of every workspace.", examples=["/etc/goclaw/ssh/web1"]
    )
    known_hosts: SshFile = Field(
        description="File with the host's key (`ssh-keyscan`, compared by a person).",
        examples=["/etc/goclaw/ssh/known_hosts"],
    )


class SshSettings(Section):
    """The `ssh_exec` tool."""

    hosts: dict[str, SshHost] = Field(
        default_factory=dict, description="Hosts for commands over ssh, by the name that the model uses."
    )

    @field_validator("hosts")
    @classmethod
    def _check_names(cls, hosts: dict[str, SshHost]) -> dict[str, SshHost]:
        for name in hosts:
            if not _HOST_ID.fullmatch(name):
                raise ValueError(f"`{name}` should be a name of letters, digits, `_`, `.` and `-`")
        return hosts


class CommandSettings(Section):
    """The `command` tool."""

    allowed: Names = Field(
        ("status", "usage", "tools", "help", "whoami", "queue"),
        description="Slash commands that the agent may use for the person it works for, of those the person may use.",
    )

    @field_validator("allowed")
    @classmethod
    def _harmless(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        plain = tuple(name.removeprefix("/").lower() for name in names)
        if found := next((name for name in plain if name in FOR_PEOPLE_ONLY), ""):
            raise ValueError(f"`{found}` is for people only and can never be allowed")
        return plain


class CliToolSettings(Section):
    """A tool that runs one command, contained like those of `exec`; the model adds arguments to it."""

    command: Program = Field(
        description="The program: a name, or a path; `./lint.sh` lies in the workspace.", examples=["golangci-lint"]
    )
    args: Words = Field((), description="Its first arguments, one word each; the model's arguments follow.")
    description: str = Field(
        description="What the tool does, for the model: one sentence, then further details.",
        examples=["Run the Go linter."],
        min_length=1,
        max_length=4_000,
    )
    timeout: float | None = Field(None, gt=0, le=3_600, description="Seconds; not set: `tools.exec.timeout`.")
    tags: Names = Field((), description="Tags by which policies and toolsets choose it, besides `shell` and `cli`.")
    title: str = Field("", max_length=100, description="Its name for people; not set: derived from its name.")
    read_only: bool = Field(
        False,
        description="Whether it changes nothing: in the sandbox and without network it then runs like a read, also in "
        "plan mode, and cannot write in the workspace.",
    )
    destructive: bool | None = Field(
        None,
        description="Whether it may destroy data. `true`: every call asks first. Not set: the sandbox decides what "
        "asks, and MCP clients see it as destructive unless it only reads.",
    )
    idempotent: bool | None = Field(
        None,
        description="Whether it may run twice without harm, so that it runs again after a crash. Not set: only if it "
        "only reads.",
    )
    open_world: bool | None = Field(
        None,
        description="Whether MCP clients see it as reaching beyond this machine; not set: yes. `tools.exec.network` "
        "says what it can reach.",
    )

    @model_validator(mode="after")
    def _not_both(self) -> "CliToolSettings":
        if self.read_only and self.destructive:
            raise ValueError("`read_only` and `destructive` exclude each other")
        return self

    def line(self, given: str = "") -> str:
        """Return the command as a shell's command line, for rules and people.

        Raises:
            ValueError: the quotation marks in `given` do not match.
        """
        return shlex.join(self.words(given))

    def words(self, given: str = "") -> tuple[str, ...]:
        """Return the command with its arguments and those of `given`, split as a shell would; no shell is run.

        Raises:
            ValueError: the quotation marks in `given` do not match.
        """
        return (self.command, *self.args, *shlex.split(given))


CliToolName = Annotated[
    str,
    require(
        rf"[a-z][a-z0-9_]{{0,{MAX_NAME - 1}}}",
        f"should be a name in snake_case (`run_lint`), at most {MAX_NAME} characters",
    ),
    AfterValidator(refuse_built_in),
]
CliTools = dict[CliToolName, CliToolSettings]


class ExecSettings(Section):
    """The `exec` tool."""

    sandbox: Literal["auto", "bubblewrap", "broker", "off"] = Field(
        "auto", description="The sandbox: the best one that works here, a certain one, or none (`off`)."
    )
    network: Literal["none", "proxy", "host"] = Field(
        "none",
        description="Network access of commands: none, public hosts through a proxy that obeys `tools.network` "
        "(bubblewrap only), or everything that this machine reaches.",
    )
    allowed: Names | None = Field(
        None,
        description="Only these commands may run: `git`, or `git status` for these first words. Not set: every "
        "command. This includes commands run by `env`, `xargs`, `sh -c` and substitutions; unclear "
        "commands are refused. Known harmless options before the words are ignored.",
    )
    blocked: Names = Field(
        (),
        description="Commands that may not run, in the same form, whatever options come before the words; counts for "
        "`ssh_exec`, too.",
    )
    timeout: float = Field(30, gt=0, le=300, description="Time limit of a command in seconds, if the call sets none.")
    output_limit: int = Field(
        30_000, ge=1_000, description="Maximum characters of output for the model: the beginning and the end."
    )
    compress_output: bool | None = Field(
        None,
        description="Shorten the output of well-known commands (`ls`, `git`, `grep`, `pytest` …); not set: only for "
        "local models. `models.options.<name>.compress_output` overrides this.",
    )
    env: Environment = Field(default_factory=dict, description="Variables added to the commands' environment.")
    memory_mb: int = Field(2_048, ge=64, description="Memory a command may use, all its processes together.")
    processes: int = Field(256, ge=8, description="Processes and threads one command may have.")
    cpu_seconds: int = Field(300, ge=1, description="CPU time one process may use.")
    file_mb: int = Field(1_024, ge=1, description="Largest file a command may write.")


class NetworkSettings(Section):
    """Network access of tools and contained commands. Private addresses and this machine they never do."""

    allow: Names = Field((), description="Allowed exceptions: `host`, `host:port`, or your own address or network.")
    deny: Names = Field((), description="Forbidden hosts with their subdomains, addresses and networks.")
    ports: Ports = Field(
        (80, 443), description="Ports that commands may reach through the proxy of `tools.exec.network`."
    )


class ToolsSettings(Section):
    """Tools."""

    timeout: float = Field(30, gt=0, description="Time limit of a tool in seconds, if it declares none.")
    disabled: Selection = Field(
        (), description="Tools that nobody may use: names, `tag:x`, `set:y`; a leading `-` is an exception."
    )
    profile: ToolProfile = Field(
        "auto",
        description="Which tools are in a request: `all`; `index`: ten, plus one line for each other tool, which "
        "`tool_search` finds and `tool_call` runs; `core`: seven, and the others only by search; `auto`: "
        "`core` for windows of up to 16,384 tokens, else `index`. `agents.*.tools_profile`, then "
        "`models.options.<name>`, override this.",
    )
    aliases: bool = Field(
        True,
        description="Whether the agent may also call tools by names from other systems (`Bash`, `Read`, `Grep`). In "
        "settings such a name always means the tool.",
    )
    sets: dict[str, Selection] = Field(
        default_factory=dict, description="Sets of tools, by name, for use as `set:name` wherever you choose tools."
    )
    from_registry: dict[ServerName, FromRegistrySettings] = Field(
        default_factory=dict,
        description="Toolsets and MCP servers from `registries`, by their names here (docs/registries.md).",
    )
    pinned: PinnedSets = Field(
        default_factory=dict,
        description=(
            "Sets of an MCP server's tools, by name, with their exact definitions; a tool that differs is excluded."
        ),
    )
    publish: dict[str, PublishSettings] = Field(
        default_factory=dict, description="Published sets of tools, by name; agents publish theirs in `exports`."
    )
    exec: ExecSettings = Field(default_factory=ExecSettings, description="The `exec` tool.")
    cli: CliTools = Field(default_factory=dict, description="Tools of your own, by name: a command each.")
    network: NetworkSettings = Field(
        default_factory=NetworkSettings, description="Network access of tools, in addition to the sandbox's rules."
    )
    read: ReadSettings = Field(default_factory=ReadSettings, description="The `read` tool.")
    write: WriteSettings = Field(default_factory=WriteSettings, description="The `write` tool.")
    edit: EditSettings = Field(default_factory=EditSettings, description="The `edit` and `multi_edit` tools.")
    search: SearchSettings = Field(
        default_factory=SearchSettings,
        description="The `search` and `glob` tools. Source comes first, then config, docs, media: "
        '`search_priority.json` in the state folder moves endings (`{"source": ["md"], "config": ["py"]}`).',
    )
    ssh: SshSettings = Field(default_factory=SshSettings, description="The `ssh_exec` tool.")
    web_fetch: WebFetchSettings = Field(default_factory=WebFetchSettings, description="The `web_fetch` tool.")
    web_search: WebSearchSettings = Field(default_factory=WebSearchSettings, description="The `web_search` tool.")
    command: CommandSettings = Field(default_factory=CommandSettings, description="The `command` tool.")
    teams: bool = Field(
        False,
        description="Whether agents may form teams: `team_create`, `send_message`, `team_delete` (docs/agents.md).",
    )
    tasks: TasksSettings = Field(default_factory=TasksSettings, description="Commands in the background.")

    @field_validator("sets")
    @classmethod
    def _sound(cls, sets: dict[str, Selection]) -> dict[str, Selection]:
        built_in = {each.name for each in BUILT_IN}
        for name in sets:
            if name in built_in:
                raise ValueError(f"`{name}` is built in and cannot be defined; choose another name")
            if not _SET.fullmatch(name):
                raise ValueError(
                    f"`{name}` should be a name of letters, digits, `.`, `_` and `-`, or an agent's own set, "
                    "`agent/set`"
                )
        if chain := cycle(sets):
            raise ValueError(f"a set cannot be part of itself: {' > '.join(chain)}")
        return sets

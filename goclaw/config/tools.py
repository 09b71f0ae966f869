"""The keys of `tools`."""

import re
from typing import Literal

from pydantic import Field, field_validator

from goclaw.config.cli_tools import CliTools
from goclaw.config.command_tool import CommandSettings
from goclaw.config.exports import PublishSettings
from goclaw.config.file_tools import EditSettings, ReadSettings, SearchSettings, WriteSettings
from goclaw.config.mcp_servers import ServerName
from goclaw.config.pinned import PinnedSets
from goclaw.config.registries import FromRegistrySettings
from goclaw.config.section import Section
from goclaw.config.shell_tools import SshSettings, TasksSettings
from goclaw.config.values import Environment, Names, Ports, Selection, ToolProfile
from goclaw.config.web_tools import WebFetchSettings, WebSearchSettings
from goclaw.selection import BUILT_IN, cycle

_SET = re.compile(r"(?:[a-z][a-z0-9_-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*")


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
        "Also judged: what `env`, `xargs`, `sh -c` and substitutions run; what cannot be judged is refused. Options "
        "before the words are looked past if they are known and change nothing.",
    )
    blocked: Names = Field(
        (), description="Commands that may not run, in the same form, whatever options stand before the words."
    )
    timeout: float = Field(30, gt=0, le=300, description="Seconds a command gets when it asks for none.")
    output_limit: int = Field(30_000, ge=1_000, description="Characters of output the model sees; the tail is kept.")
    compress_output: bool | None = Field(
        None,
        description="Shorten what well-known commands say (`ls`, `git`, `grep`, `pytest` …); not set: only for local "
        "models. `models.options.<name>.compress_output` comes first.",
    )
    env: Environment = Field(default_factory=dict, description="Variables added to the commands' environment.")
    memory_mb: int = Field(2_048, ge=64, description="Memory one process may use.")
    processes: int = Field(256, ge=8, description="Processes and threads one command may have.")
    cpu_seconds: int = Field(300, ge=1, description="CPU time one process may use.")
    file_mb: int = Field(1_024, ge=1, description="Largest file a command may write.")


class NetworkSettings(Section):
    """Network access of tools and contained commands. Private addresses and this machine they never do."""

    allow: Names = Field(
        (), description="Exceptions: `host`, `host:port`, an address or a network of yours that may be reached."
    )
    deny: Names = Field((), description="Hosts, with all below them, addresses and networks that may not be reached.")
    ports: Ports = Field((80, 443), description="Ports that commands reach through the proxy of `tools.exec.network`.")


class ToolsSettings(Section):
    """Tools."""

    timeout: float = Field(30, gt=0, description="Seconds a tool may run when it declares no time of its own.")
    disabled: Selection = Field(
        (), description="Tools that nobody may use: names, `tag:x`, `set:y`; with `-` before it, what is spared."
    )
    profile: ToolProfile = Field(
        "auto",
        description="Which tools stand in a request: `all`; `index`: ten, a line for each of the others, which "
        "`tool_search` finds and `tool_call` runs; `core`: seven, the others only found; `auto`: `core` for windows of "
        "up to 8,192 tokens, else `index`. `agents.*.tools_profile`, then that of `models.options.<name>`, come first.",
    )
    aliases: bool = Field(
        True,
        description="Whether the agent may call tools by names of other systems, too (`Bash`, `Read`, `Grep`). "
        "Wherever tools are chosen such a name always means the tool.",
    )
    sets: dict[str, Selection] = Field(
        default_factory=dict, description="Sets of tools, by name, to be used as `set:name` wherever tools are chosen."
    )
    from_registry: dict[ServerName, FromRegistrySettings] = Field(
        default_factory=dict,
        description="Toolsets and MCP servers of `registries`, by the names that they get here (docs/registries.md).",
    )
    pinned: PinnedSets = Field(
        default_factory=dict,
        description="Sets of tools of an MCP server, by name, each tool as it has to be; one that is not is no part.",
    )
    publish: dict[str, PublishSettings] = Field(
        default_factory=dict,
        description="Sets of tools that registries are told of, by their names; those of agents say so themselves "
        "(`exports`).",
    )
    exec: ExecSettings = Field(default_factory=ExecSettings.model_construct, description="The `exec` tool.")
    cli: CliTools = Field(default_factory=dict, description="Tools of your own, by name: a command each.")
    network: NetworkSettings = Field(
        default_factory=NetworkSettings.model_construct,
        description="What tools reach of the network, besides what a sandbox says.",
    )
    read: ReadSettings = Field(default_factory=ReadSettings.model_construct, description="The `read` tool.")
    write: WriteSettings = Field(default_factory=WriteSettings.model_construct, description="The `write` tool.")
    edit: EditSettings = Field(
        default_factory=EditSettings.model_construct, description="The `edit` and `multi_edit` tools."
    )
    search: SearchSettings = Field(
        default_factory=SearchSettings.model_construct, description="The `search` and `glob` tools."
    )
    ssh: SshSettings = Field(default_factory=SshSettings.model_construct, description="The `ssh_exec` tool.")
    web_fetch: WebFetchSettings = Field(
        default_factory=WebFetchSettings.model_construct, description="The `web_fetch` tool."
    )
    web_search: WebSearchSettings = Field(
        default_factory=WebSearchSettings.model_construct, description="The `web_search` tool."
    )
    command: CommandSettings = Field(default_factory=CommandSettings.model_construct, description="The `command` tool.")
    teams: bool = Field(
        False,
        description="Whether there are teams of agents: `team_create`, `send_message`, `team_delete` (docs/agents.md).",
    )
    tasks: TasksSettings = Field(
        default_factory=TasksSettings.model_construct, description="Commands in the background."
    )

    @field_validator("sets")
    @classmethod
    def _sound(cls, sets: dict[str, Selection]) -> dict[str, Selection]:
        built_in = {each.name for each in BUILT_IN}
        for name in sets:
            if name in built_in:
                raise ValueError(f"`{name}` is built in and cannot be defined; choose another name")
            if not _SET.fullmatch(name):
                raise ValueError(
                    f"`{name}` should be a name of letters, digits, `.`, `_` and `-`, or that of an agent's own set, "
                    "`agent/set`"
                )
        if chain := cycle(sets):
            raise ValueError(f"a set cannot be part of itself: {' > '.join(chain)}")
        return sets

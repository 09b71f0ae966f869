"""The `ssh_exec` tool: a command on a host of the configuration, through the system's `ssh`.

It runs outside the sandbox, because it needs the network and a key that no command may read. The model gives the remote
command alone, as one argument: which program runs here, with which options, files and variables, is fixed.
"""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import Field

from goclaw.common.config.schema import Config
from goclaw.common.config.tools import SshHost
from goclaw.common.specs import Annotations, Example, Risk, SideEffect
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.approval.requests import Grounds
from goclaw.tools.builtin.exec_run import MAX_COMMAND, collect_output, shorten_line
from goclaw.tools.builtin.text import encode
from goclaw.tools.execution.sandbox.base import Policy, SandboxCommand
from goclaw.tools.execution.sandbox.broker import open_off
from goclaw.tools.execution.sandbox.layout import environment
from goclaw.tools.execution.sandbox.rules import Rules
from goclaw.tools.toolkit.base import ToolContext, offered, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse

NOT_SET_UP = "ssh_exec is not set up: the operator has configured no host (tools.ssh.hosts)"
_PLACES = "/usr/bin:/usr/local/bin:/bin:/run/current-system/sw/bin"
"""The folders searched for ssh: never the PATH of the user that started the daemon."""
_OF_SSH = 255
"""The exit code of ssh itself."""
_CONNECT_SECONDS = 15
_FIXED = {
    # No prompts, and no other key, file, agent or program is used.
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "GlobalKnownHostsFile": "/dev/null",
    "UpdateHostKeys": "no",
    "VerifyHostKeyDNS": "no",
    "KnownHostsCommand": "none",
    "IdentitiesOnly": "yes",
    "IdentityAgent": "none",
    "PKCS11Provider": "none",
    "PreferredAuthentications": "publickey",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "Tunnel": "no",
    "PermitLocalCommand": "no",
    "ProxyCommand": "none",
    "ControlMaster": "no",
    "ControlPath": "none",
    "CanonicalizeHostname": "no",
    "RequestTTY": "no",
    "EscapeChar": "none",
    "LogLevel": "ERROR",
    "ConnectTimeout": str(_CONNECT_SECONDS),
    "ServerAliveInterval": "15",
}


class SshResult(Result):
    """What a remote command said."""

    host: str
    output: Annotated[str, Field(description="Standard output and error, merged; of a long one head and tail.")]
    exit_code: int

    def text(self) -> str:
        """Return the output, and the exit code in a line of its own."""
        return f"{self.output}exit code: {self.exit_code}"


def _needs(config: Config) -> str:
    return "" if config.tools.ssh.hosts else NOT_SET_UP


async def _grounds(arguments: Any, ctx: ToolContext) -> Grounds:
    """Return the host of the command; "always" holds for this command on the host as configured now."""
    host = _host(arguments.host, ctx)
    Rules(blocked=ctx.config.tools.exec.blocked).judge(arguments.command)
    place = f"{host.user}@{host.host}:{host.port}"
    states = {}
    for name, path in (("known_hosts", host.known_hosts), ("identity_file", host.identity_file)):
        states[name] = f"{path} {await asyncio.to_thread(_state_of, path)}"
    known = {"host": place, "command": arguments.command, **states}
    return Grounds(
        facts={"host": place, **states},
        lines=(f"On `{arguments.host}` (`{place}`), outside of the sandbox, with all rights of that user there.",),
        pattern=(orjson.dumps(known, option=orjson.OPT_SORT_KEYS).decode(),),
        labels=(f"exactly this command on {arguments.host}",),
    )


@offered(needs=_needs)
@tool(
    side_effect=SideEffect.NETWORK,
    risk=Risk.HIGH,
    idempotent=False,
    tags=("shell", "network"),
    annotations=Annotations(
        "Run a command on another host", read_only=False, destructive=True, idempotent=False, open_world=True
    ),
    own_timeout=True,
    grounds=_grounds,
    access=lambda arguments, ctx: ResourceUse(category="shell", orders=(f"ssh {arguments.host}",)),
    asks="run {{ command or 'this command' }} on {{ host }}",
    does="run commands on other computers",
    call_hint="On {{ host }}: {{ command | truncate(100) }}",
    result_hint="Ran {{ args.command | truncate(70) }} on {{ host }}: exit code {{ exit_code }}",
    examples=(Example("How full its disk is", {"host": "web1", "command": "df -h /"}, "exit code: 0"),),
)
async def ssh_exec(
    ctx: ToolContext,
    host: Annotated[str, Field(min_length=1, max_length=64, description="Id of a configured host.")],
    command: Annotated[
        str, Field(min_length=1, max_length=MAX_COMMAND, description="Command for the shell of the remote user.")
    ],
    timeout: Annotated[int | None, Field(ge=1, le=300, description="Timeout in seconds (default: 30).")] = None,
) -> SshResult:
    """Run a command on a remote host over ssh. Returns its output (stdout and stderr merged) and its exit code.

    Hosts are those that the operator configured; a wrong id is answered with the list. Standard input is closed. At the
    timeout the connection is cut; what the command started there may go on.
    """
    settings = _host(host, ctx)
    Rules(blocked=ctx.config.tools.exec.blocked).judge(command)  # `allowed` names programs of this machine
    argv = await asyncio.to_thread(_argv, settings, command, ctx.workspace.root)
    seconds = timeout or ctx.config.tools.exec.timeout
    shorten = shorten_line(command) if ctx.compress else None
    # With an environment of its own, as a tree that dies with the daemon.
    async with open_off() as outside:
        running = outside.run(SandboxCommand(argv, Path("/"), environment({})), Policy(Path("/")))
        ran = await collect_output(ctx, running, seconds, shorten)
    if ran.code == _OF_SSH:
        said = ran.output.strip() or "it gave no reason"
        raise ToolError(f"ssh to {host} failed, or the command ended with exit code 255: {said}")
    return SshResult(host=host, output=ran.output, exit_code=ran.code)


def _host(name: str, ctx: ToolContext) -> SshHost:
    hosts = ctx.config.tools.ssh.hosts
    if not hosts:
        raise ToolError(NOT_SET_UP)
    if name not in hosts:
        raise InvalidInput(f'field "host": expected one of {", ".join(sorted(hosts))}, got {name!r}')
    return hosts[name]


def _argv(host: SshHost, command: str, workspace: Path) -> tuple[str, ...]:
    """Return the whole command line of ssh. The model's text is its last word, after `--` and the host."""
    if "\0" in command:
        raise InvalidInput('field "command": expected text without NUL characters, got one')
    if len(encode(command, "command")) > MAX_COMMAND:
        raise InvalidInput(f'field "command": expected at most {MAX_COMMAND} bytes; copy a script there and run it')
    program = shutil.which("ssh", path=_PLACES)
    if program is None:
        raise ToolError("ssh is not installed (Debian, Ubuntu: apt install openssh-client)")
    for key, path in (("identity_file", host.identity_file), ("known_hosts", host.known_hosts)):
        if not path.is_file():
            raise ToolError(f"ssh_exec is not set up: {key} {path} (tools.ssh.hosts) is not there")
        if not os.access(path, os.R_OK):
            raise ToolError(f"ssh_exec is not set up: {key} {path} (tools.ssh.hosts) cannot be read")
        if path.resolve().is_relative_to(workspace.resolve()):
            raise ToolError(f"ssh_exec is not set up: {key} {path} lies in the workspace, where commands can change it")
    options = {
        **_FIXED,
        "UserKnownHostsFile": str(host.known_hosts),
        "IdentityFile": str(host.identity_file),
        "Port": str(host.port),
        "User": host.user,
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    # The command is one word behind `--`, so a line feed or a dash in it adds no option of ssh.
    return (program, "-F", "none", "-T", *words, "--", host.host, command)


def _state_of(path: Path) -> str:
    """Return the identity of a file, without its content, because it may be a key."""
    try:
        found = path.stat()
    except OSError as error:
        return error.strerror or "cannot be read"
    return f"{found.st_dev}:{found.st_ino} {found.st_size} {found.st_mtime_ns}"

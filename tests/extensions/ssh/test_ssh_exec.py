"""`ssh_exec` against a real sshd: what it runs, which hosts it trusts, what it never does."""

import asyncio
import os
import shlex
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from goclaw.common.config.schema import Config
from goclaw.common.specs import Risk
from goclaw.errors import InvalidInput, ToolError
from goclaw.extensions.ssh.ssh_exec import _argv, ssh_exec
from goclaw.tools.builtin.read import read
from tests.together import together
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings
from tests.tools.builtin.shell_support import SshServer, cut_off, ssh_server

__all__ = ["around"]

HOST = {"host": "127.0.0.1", "user": "nobody", "identity_file": "/nowhere/key", "known_hosts": "/nowhere/known"}


@pytest.fixture
async def server(tmp_path: Path, around: Surroundings) -> AsyncIterator[SshServer]:
    async with ssh_server(tmp_path / "ssh") as made:
        made.configure(around)
        yield made


@pytest.mark.usefixtures("server")
async def test_output_and_exit_code_are_the_result(around: Surroundings) -> None:
    expected = {
        "echo out; echo err >&2": "out\nerr\nexit code: 0",
        "exit 3": "exit code: 3",
        "cat": "exit code: 0",
        "printf '%s|' \"$SSH_ORIGINAL_COMMAND\" a 'b c'": "|a|b c|\nexit code: 0",
    }

    async def attempt(command: str) -> None:
        async with asyncio.timeout(20):
            said = await around.call(ssh_exec, {"host": "web1", "command": command})
        # Two streams come through one connection, in no certain order.
        assert sorted(said.splitlines()) == sorted(expected[command].splitlines())

    await together(attempt, {command: command for command in expected}, at_once=4)


@pytest.mark.promise("P-ssh")
@pytest.mark.usefixtures("server")
async def test_no_command_is_an_option_or_an_order_to_ssh(tmp_path: Path, around: Surroundings) -> None:
    """The remote shell reads it, whatever it looks like: it finds no such command, and nothing happens here."""
    commands = ["-oProxyCommand=touch {}", "-- touch {}/x", "\n-oLocalCommand=x", "-V", "~.", "~C", "$(echo -V)"]
    ran = tmp_path / "ran"

    async def attempt(command: str) -> None:
        async with asyncio.timeout(20):
            said = await around.call(ssh_exec, {"host": "web1", "command": command.format(shlex.quote(str(ran)))})
        assert said.endswith(("exit code: 127", "exit code: 2"))
        assert "OpenSSH" not in said
        assert not ran.exists()

    await together(attempt, {command: command for command in commands}, at_once=4)


@pytest.mark.promise("P-ssh")
async def test_a_host_with_another_key_is_not_spoken_to(around: Surroundings, server: SshServer) -> None:
    other = (server.folder / "key.pub").read_text().split()
    (server.folder / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {other[0]} {other[1]}\n")
    with pytest.raises(ToolError, match=r"ssh to web1 failed.*(?s:.*)Host key verification failed"):
        await around.call(ssh_exec, {"host": "web1", "command": "true"})

    (server.folder / "known_hosts").write_text("")
    with pytest.raises(ToolError, match="Host key verification failed"):
        await around.call(ssh_exec, {"host": "web1", "command": "true"})
    assert (server.folder / "known_hosts").read_text() == "", "nobody learns a key by meeting it"


async def test_another_key_does_not_let_in(around: Surroundings, server: SshServer) -> None:
    (server.folder / "authorized").write_text((server.folder / "host_key.pub").read_text())
    with pytest.raises(ToolError, match=r"Permission denied \(publickey\)"):
        await around.call(ssh_exec, {"host": "web1", "command": "true"})


async def test_no_agent_and_nothing_of_the_daemon_goes_along(
    around: Surroundings, server: SshServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "config").write_text("Host *\n  SendEnv *\n  ForwardAgent yes\n  ProxyCommand false\n")
    for name, value in {"HOME": str(home), "SSH_AUTH_SOCK": "/nowhere", "GOCLAW_TOKEN": "canary"}.items():
        monkeypatch.setenv(name, value)
    async with asyncio.timeout(20):
        said = await around.call(ssh_exec, {"host": "web1", "command": "env"})

    assert "canary" not in said
    assert "SSH_AUTH_SOCK" not in said
    assert said.endswith("exit code: 0")


async def test_at_its_time_the_connection_is_cut_and_no_process_is_left(
    around: Surroundings, server: SshServer
) -> None:
    mark = f"{os.getpid() % 10_000 + 50_000}.{time.monotonic_ns() % 10**9}"
    given = {"host": "web1", "command": f"echo early; exec sleep {mark}"}
    async with asyncio.timeout(40):
        seconds, said = await cut_off(lambda seconds: around.call(ssh_exec, given | {"timeout": seconds}), "early")
    assert said == f"command timed out after {seconds} s\nearly"

    own = [one for one in psutil.process_iter(["cmdline"]) if "BatchMode=yes" in (one.info["cmdline"] or [])]
    assert [one for one in own if f"exec sleep {mark}" in " ".join(one.info["cmdline"])] == []
    for left in psutil.process_iter(["cmdline"]):  # on the remote side it may go on
        if (left.info["cmdline"] or [])[-2:] == ["sleep", mark]:
            left.kill()


async def test_a_long_output_shows_its_tail_and_is_kept(around: Surroundings, server: SshServer) -> None:
    async with asyncio.timeout(20):
        said = await around.call(ssh_exec, {"host": "web1", "command": "seq 100000"})
    assert said.endswith("100000\nexit code: 0")
    assert len(said) < 31_000
    name = said.split("kept as ")[1].split(",")[0]
    assert (await around.call(read, {"path": name, "limit": 1})).startswith("     1\t1\n")


async def test_what_is_asked_names_the_host_and_changes_with_its_files(around: Surroundings, server: SshServer) -> None:
    assert ssh_exec.grounds
    arguments = ssh_exec.arguments(host="web1", command="uptime")
    before = await ssh_exec.grounds(arguments, around.context())
    (server.folder / "known_hosts").write_text("other")
    after = await ssh_exec.grounds(arguments, around.context())

    assert f"@127.0.0.1:{server.port}" in before.lines[0]
    assert before.labels == ("exactly this command on web1",)
    assert before.pattern != after.pattern
    assert before.facts != after.facts
    assert ssh_exec.spec.risk is Risk.HIGH
    assert ssh_exec.spec.annotations.destructive is True


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, 'field "host": expected string, got nothing'),
        ({"host": "web1"}, 'field "command": expected string, got nothing'),
        ({"host": 1, "command": "x"}, 'field "host": expected string, got number'),
        ({"host": "", "command": "x"}, 'field "host"'),
        ({"host": "web1", "command": ""}, 'field "command"'),
        ({"host": "web1", "command": "x" * 100_001}, 'field "command"'),
        ({"host": "web1", "command": "ä" * 60_000}, 'field "command": expected at most 100000 bytes'),
        ({"host": "web1", "command": "a\0b"}, 'field "command": expected text without NUL characters'),
        ({"host": "web1", "command": "\ud800"}, 'field "command": expected'),
        ({"host": "web1", "command": "x", "timeout": 0}, 'field "timeout"'),
        ({"host": "web1", "command": "x", "timeout": 301}, 'field "timeout"'),
        ({"host": "web1", "command": "x", "options": "-v"}, 'field "options": unknown field'),
        ({"host": "web2", "command": "x"}, "field \"host\": expected one of web1, got 'web2'"),
        ({"host": "-oProxyCommand=x", "command": "x"}, 'field "host": expected one of web1'),
        ({"host": "root@127.0.0.1", "command": "x"}, 'field "host": expected one of web1'),
    ],
)
async def test_bad_input_is_told_by_its_field(given: dict[str, Any], words: str, around: Surroundings) -> None:
    around.config = Config.model_validate(
        {"state_dir": around.config.state_dir, "tools": {"ssh": {"hosts": {"web1": HOST}}}}
    )
    with pytest.raises(InvalidInput) as caught:
        await around.call(ssh_exec, given)
    assert words in str(caught.value)


@pytest.mark.promise("P-exec-rules")
async def test_what_is_blocked_for_commands_is_blocked_on_hosts_before_anybody_is_asked(around: Surroundings) -> None:
    tools = {"ssh": {"hosts": {"web1": HOST}}, "exec": {"blocked": ["rm"], "allowed": ["ls"]}}
    around.config = Config.model_validate({"state_dir": around.config.state_dir, "tools": tools})
    arguments = ssh_exec.arguments(host="web1", command="cd / && sudo rm -rf tmp")
    assert ssh_exec.grounds
    with pytest.raises(ToolError, match=r"`rm -rf tmp` is blocked by the rule `rm`"):
        await ssh_exec.grounds(arguments, around.context())
    with pytest.raises(ToolError, match="is blocked by the rule"):
        await around.call(ssh_exec, {"host": "web1", "command": "cd / && sudo rm -rf tmp"})
    elsewhere = ssh_exec.arguments(host="web1", command="uptime")
    assert (await ssh_exec.grounds(elsewhere, around.context())).labels, (
        "which ones are allowed is said of this machine"
    )


@pytest.mark.promise("P-ssh")
async def test_without_a_host_it_says_what_is_missing(around: Surroundings) -> None:
    with pytest.raises(ToolError, match=r"^ssh_exec is not set up: .*tools\.ssh\.hosts"):
        await around.call(ssh_exec, {"host": "web1", "command": "true"})


@pytest.mark.parametrize(
    ("put", "words"),
    [
        (lambda around, folder: folder, "is not there"),
        (lambda around, folder: around.write("key", "x").parent, "lies in the workspace"),
    ],
)
async def test_a_key_that_is_missing_or_within_reach_is_refused(
    put: Callable[[Surroundings, Path], Path], words: str, around: Surroundings, tmp_path: Path
) -> None:
    folder = put(around, tmp_path)
    host = {**HOST, "identity_file": folder / "key", "known_hosts": folder / "key"}
    around.config = Config.model_validate(
        {"state_dir": around.config.state_dir, "tools": {"ssh": {"hosts": {"web1": host}}}}
    )
    with pytest.raises(ToolError, match=f"identity_file .*{words}"):
        await around.call(ssh_exec, {"host": "web1", "command": "true"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"user": "-oProxyCommand=x"}, "name of a user"),
        ({"user": "a b"}, "name of a user"),
        ({"host": "-oProxyCommand=x"}, "name or the address"),
        ({"host": "a b"}, "name or the address"),
        ({"port": 0}, "greater than or equal to 1"),
        ({"identity_file": "/keys/%h"}, "has a special meaning for ssh"),
        ({"known_hosts": "/a /b"}, "has a special meaning for ssh"),
        ({"identity_file": "/keys/${HOME}"}, r"contains \$\{HOME\}, which GoClaw does not expand"),
        ({"proxy": "x"}, "Extra inputs"),
    ],
)
def test_a_host_that_ssh_could_misread_is_refused_in_the_configuration(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Config.model_validate({"tools": {"ssh": {"hosts": {"web1": {**HOST, **change}}}}})


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 65])
def test_the_id_of_a_host_is_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="should be a name"):
        Config.model_validate({"tools": {"ssh": {"hosts": {name: HOST}}}})


@pytest.mark.promise("P-ssh")
async def test_ssh_reads_no_configuration_but_what_stands_here(around: Surroundings, server: SshServer) -> None:
    """Asked itself (`ssh -G`), ssh says what is in force; a file of the user's or the machine's has no part in it."""
    argv = _argv(around.config.tools.ssh.hosts["web1"], "true", around.the_workspace.root)
    program, *words = argv
    assert words[:2] == ["-F", "none"] and words[-3:] == ["--", "127.0.0.1", "true"]

    asked = await asyncio.create_subprocess_exec(program, "-G", *words, stdout=asyncio.subprocess.PIPE, env={})
    async with asyncio.timeout(10):
        said, _ = await asked.communicate()
    in_force = dict(line.split(" ", 1) for line in said.decode().splitlines() if " " in line)
    assert in_force["port"] == str(server.port)
    assert in_force["userknownhostsfile"] == str(server.folder / "known_hosts")
    for name, value in {
        "stricthostkeychecking": ("true", "yes"),
        "batchmode": ("yes",),
        "identitiesonly": ("yes",),
        "identityagent": ("none",),
        "forwardagent": ("no",),
        "forwardx11": ("no",),
        "clearallforwardings": ("yes",),
        "permitlocalcommand": ("no",),
        "controlmaster": ("false", "no"),
        "updatehostkeys": ("false", "no"),
        "tunnel": ("false", "no"),
        "requesttty": ("false", "no"),
    }.items():
        assert in_force.get(name, value[0]) in value, name
    assert "proxycommand" not in in_force and "localforward" not in in_force

"""The broker's own process: a small fork server that starts commands under Landlock and seccomp.

It is started as a fresh program with an empty environment, so that there is no secret in it to be read. It imports
nothing but the standard library, and of that little: its size is the price of every fork.

    daemon ──socket──▶ broker ──fork──▶ supervisor ──fork──▶ restrict, exec: the command
                                            ▲ one per command: takes in orphans, counts, kills the whole tree
    daemon ◀────────── socket of the command ┘

Messages are JSON, one per packet. Daemon to broker: a request (see `_Request`) with the descriptors of the command's
socket, standard input and output. Supervisor to daemon: `{"started": pid}` or `{"error": text}`, then
`{"exit": code}`, then end of file when the whole tree is dead. Any packet, or end of file, from the daemon: kill it.
"""

import ctypes
import json
import os
import resource
import select
import signal
import socket
from typing import Any, NoReturn

from goclaw.sandbox import landlock, seccomp, tree

PACKET = 1 << 20
"""Bytes that one message may have."""

_Request = dict[str, Any]
"""argv, env, cwd; limits as [cpu seconds, memory bytes, processes, file bytes]; contained (bool), grants as
[path, access] pairs, network (bool), families, protected process ids."""

_TICK = 0.05
"""Seconds between two counts of a command's processes."""
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
_LAST_CAPABILITY = 63
_CAPABILITY_VERSION = 0x20080522  # linux/capability.h, version 3: two words per set

_libc = ctypes.CDLL(None, use_errno=True)


def main(descriptor: int, *, powerless: bool) -> None:
    """Serve requests from the socket `descriptor` until the daemon closes it; `powerless` drops root's powers."""
    control = socket.socket(fileno=descriptor)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if powerless:
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _drop_capabilities()
    supervisors: set[int] = set()
    while True:
        ready, _, _ = select.select([control], [], [], 1.0)
        ended, _ = tree.reap_all()
        supervisors -= ended.keys()
        _end_strays(supervisors)
        if not ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(control, PACKET, 3)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            _supervise(json.loads(data), *descriptors)
        supervisors.add(pid)
        for received in descriptors:
            os.close(received)


def _end_strays(supervisors: set[int]) -> None:
    """Orphans whose supervisor was killed come to the broker: nobody watches them, so they end."""
    for pid in tree.children_of(os.getpid()):
        if pid not in supervisors:
            for stray in (pid, *tree.descendants(pid)):
                tree.kill(stray)


def _supervise(request: _Request, report: int, stdin: int, output: int) -> NoReturn:
    """Start the command, watch it, leave when nothing of it is left."""
    channel = socket.socket(fileno=report)
    try:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        code = _run(request, channel, stdin, output)
        tree.end_children()
        if code is not None:
            _tell(channel, {"exit": code})
    except OSError as error:
        _tell(channel, {"error": error.strerror or str(error)})
    finally:
        tree.end_children()
        os._exit(0)


def _run(request: _Request, channel: socket.socket, stdin: int, output: int) -> int | None:
    """The command's exit code; None when it was to be killed."""
    restriction = _prepare(request)
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        channel.close()
        _become(request, restriction, stdin, output, tell)
    for mine in (stdin, output, tell):
        os.close(mine)
    with os.fdopen(told, "rb") as file:
        failure = file.read()
    if failure:
        raise OSError(0, failure.decode())
    _tell(channel, {"started": pid})
    return _watch(pid, channel, request["limits"][2])


def _watch(pid: int, channel: socket.socket, processes: int) -> int | None:
    waiting = select.poll()
    ended = os.pidfd_open(pid)
    waiting.register(ended, select.POLLIN)
    waiting.register(channel, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in waiting.poll(_TICK * 1000)}
        exits, _ = tree.reap_all()
        if pid in exits:
            return exits[pid]
        if channel.fileno() in ready:
            return None
        if len(tree.descendants(os.getpid(), most=processes + 1)) > processes:
            _tell(channel, {"note": f"more than {processes} processes"})
            return 128 + signal.SIGKILL


def _prepare(request: _Request) -> tuple[int, bytes] | None:
    """The Landlock rule set and the seccomp filter, made before the fork so that a failure can be told."""
    if not request["contained"]:
        return None
    rules = landlock.ruleset([(path, access) for path, access in request["grants"]], network=request["network"])
    # The broker protects itself and the daemon where the kernel's Landlock does not know about signals.
    protected = request["protected"] + [os.getppid(), os.getpid()] if landlock.abi() < landlock.SCOPES_SINCE else ()
    return rules, seccomp.build(request["families"], among_strangers=True, protected=protected)


def _become(request: _Request, restriction: tuple[int, bytes] | None, stdin: int, output: int, tell: int) -> NoReturn:
    """In the forked child: turn into the command. `tell` is closed by a successful exec, else it gets the reason."""
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # Python ignores or catches these
            signal.signal(number, signal.SIG_DFL)
        os.chdir(request["cwd"])
        _limit(*request["limits"])
        os.dup2(stdin, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if restriction is not None:
            landlock.restrict(restriction[0])
            seccomp.load(restriction[1])
        # Everything but the three and `tell`, which exec closes.
        os.closerange(3, tell)
        os.closerange(tell + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        os.execve(request["argv"][0], request["argv"], request["env"])  # noqa: S606 -- this is the broker's purpose
    except OSError as error:
        os.write(tell, f"{request['argv'][0]}: {error.strerror}".encode())
    finally:
        os._exit(127)


def _limit(cpu_seconds: int, memory: int, processes: int, file_bytes: int) -> None:
    for kind, value in limits_of(cpu_seconds, memory, file_bytes):
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def limits_of(cpu_seconds: int, memory: int, file_bytes: int) -> list[tuple[int, int]]:
    """The resource limits of one process, as (number, value).

    RLIMIT_DATA counts what a process can really fill; address space is bounded more widely, because runtimes such as
    Node's reserve far more of it than they use.
    """
    return [
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_AS, 8 * memory),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 4096),
    ]


def _drop_capabilities() -> None:
    """Give up root's powers for good; a plain user has none to give up."""
    for capability in range(_LAST_CAPABILITY + 1):
        # Refused for numbers that the kernel does not know, and for everybody who is not root.
        _libc.prctl(
            _PR_CAPBSET_DROP, ctypes.c_ulong(capability), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)
        )
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if _libc.capset(ctypes.byref(header), ctypes.byref(nothing)) != 0:
        raise OSError(ctypes.get_errno(), "capabilities could not be dropped")


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    if _libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} refused")


def _tell(channel: socket.socket, message: dict[str, Any]) -> None:
    try:
        channel.send(json.dumps(message).encode())
    except OSError:
        pass  # the daemon is gone; its end of file has ended the command already

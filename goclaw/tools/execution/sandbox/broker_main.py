"""The broker's own process: a small fork server that starts commands under Landlock and seccomp.

It is started as a fresh program with an empty environment, so that there is no secret in it to be read. It imports
nothing but the standard library, and of that little: its size is the price of every fork.

    daemon ──socket──▶ broker ──fork──▶ supervisor ──fork──▶ restrict, exec: the command
                 ▲ counts processes         ▲ one per command: takes in orphans, kills the whole tree
    daemon ◀────────── socket of the command ┘

Daemon to broker: a packet with the descriptors of the command's socket, of a file with the request (see `_Request`),
of standard input, output and error. Supervisor to daemon, in JSON, one message a packet: `{"started": pid}` or
`{"error": text}`, then `{"exit": code}`, then end of file when the whole tree is dead. A packet, or end of file, from
the daemon: kill it.

When its parent ends, a process is handed to the nearest ancestor that asked for orphans (PR_SET_CHILD_SUBREAPER, or the
first process of a namespace), so from such an ancestor on nothing can leave the tree of `descendants`.
"""

import _thread
import ctypes
import json
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import Any, NoReturn

from goclaw.tools.execution.sandbox import landlock, seccomp
from goclaw.tools.execution.sandbox.memory import LOOK_SECONDS, describe_excess, exceeds
from goclaw.tools.execution.sandbox.metadata_calls import MetadataCalls, reads_memory

PACKET = 1 << 16
"""Bytes of one message."""
REQUEST = b"run"
"""The packet that announces a request; its descriptors hold the request itself."""
LISTENER = b"listener"
"""The packet with which a command, before it is one, hands the listener of its filter to its supervisor."""

_Request = dict[str, Any]
"""argv, env, cwd; limits as [cpu seconds, memory bytes, processes, file bytes]; contained (bool), grants as
[path, access] pairs, network (bool), families, protected process ids."""
_Restrict = Callable[[], int]
"""Confines the calling process; returns the descriptor of a listener for its metadata calls, or 0."""
_Streams = tuple[int, int, int]
"""Standard input, output and error of a command."""
_DESCRIPTORS = 5
"""That come with a request: of the command's socket, the request, and the three streams."""

_MAX_OF_A_USER = 4096
"""Processes of the daemon's user altogether, beyond which the kernel refuses new ones: a net below the counting.
It does not hold for root."""
NICENESS = 10
"""Lower priority of commands, so that their supervisors get processor time even with a thousand of them."""
_TICK = 0.02
"""Seconds between two counts of the commands' processes."""
_REAP_EVERY = 100
"""Milliseconds between two collections of ended orphans."""
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
_PROCESSES, _MEMORY = b"p", b"m"
"""What a supervisor is told that its command has too many, or too much, of."""
_LAST_CAPABILITY = 63
_CAPABILITY_VERSION = 0x20080522  # linux/capability.h, version 3: two words per set

_libc = ctypes.CDLL(None, use_errno=True)


class _Supervisor:
    """The broker's record of a supervisor: `alarm` leads to a socket that it watches.

    No pipe: a command may open its supervisor's pipes in /proc, and could take the alarm out of it.
    """

    def __init__(self, alarm: socket.socket, memory: int, processes: int) -> None:
        self.alarm = alarm
        self.memory = memory
        self.processes = processes
        self.next_look = time.monotonic() + LOOK_SECONDS

    def find_excess(self, pid: int) -> bytes:
        """Return what the command below the supervisor `pid` has too much of, as the supervisor is told."""
        found = descendants(pid, most=self.processes + 1)
        if len(found) > self.processes:
            return _PROCESSES
        if time.monotonic() < self.next_look:
            return b""
        self.next_look = time.monotonic() + LOOK_SECONDS
        return _MEMORY if exceeds(found, self.memory) else b""


def main(descriptor: int, *, powerless: bool) -> None:
    """Serve requests from the socket `descriptor` until the daemon closes it; `powerless` drops root's powers."""
    control = socket.socket(fileno=descriptor)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if powerless:
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _drop_capabilities()
    supervisors: dict[int, _Supervisor] = {}
    has_children = False
    while True:
        ready, _, _ = select.select([control], [], [], _TICK if has_children else None)
        has_children = _reap(supervisors)
        if not ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(control, PACKET, _DESCRIPTORS)
        if not data:
            return
        try:
            _start(supervisors, control, *descriptors)
            has_children = True
        except (OSError, TypeError) as error:
            # No process, no descriptor left for it. The daemon hears it, and the next one may be luckier.
            _turn_away(descriptors, error)
        for theirs in descriptors:
            os.close(theirs)


def _start(
    supervisors: dict[int, _Supervisor],
    control: socket.socket,
    report: int,
    asked: int,
    stdin: int,
    output: int,
    errors: int,
) -> None:
    with open(asked, "rb", closefd=False) as file:
        request: _Request = json.loads(file.read())
    watched, alarm = socket.socketpair()
    alarm.setblocking(False)
    try:
        pid = os.fork()
    except OSError:
        watched.close()
        alarm.close()
        raise
    if pid == 0:
        os.close(asked)
        for mine in (control, alarm, *(other.alarm for other in supervisors.values())):
            mine.close()
        _supervise(request, watched.detach(), report, (stdin, output, errors))
    supervisors[pid] = _Supervisor(alarm, request["limits"][1], request["limits"][2])
    watched.close()


def _turn_away(descriptors: list[int], error: Exception) -> None:
    """Say that nothing was started, where the socket to say it has come."""
    if descriptors:
        try:
            with socket.socket(fileno=os.dup(descriptors[0])) as channel:
                _send(channel, {"error": getattr(error, "strerror", None) or "its descriptors did not come"})
        except OSError:
            pass  # closing says as much


def _reap(supervisors: dict[int, _Supervisor]) -> bool:
    """Forget supervisors that ended, alarm those with too many processes or too much memory, end orphaned processes.

    Returns whether a child is left: a supervisor, or a leftover of a killed one, which may fork meanwhile.
    """
    ended, has_children = reap_all()
    for pid in ended.keys() & supervisors.keys():
        supervisors.pop(pid).alarm.close()
    for pid, supervisor in supervisors.items():
        if excess := supervisor.find_excess(pid):
            try:
                supervisor.alarm.send(excess)
            except OSError:
                pass  # it is just ending, or has heard it often enough
    for pid in children_of(os.getpid()):
        if pid not in supervisors:
            for stray in (pid, *descendants(pid)):
                kill(stray)
    return has_children


def _supervise(request: _Request, watched: int, report: int, streams: _Streams) -> NoReturn:
    """Start the command, watch it, leave when nothing of it is left."""
    channel = socket.socket(fileno=report)
    # Read by `_end_tree` at the very end, whatever failed before.
    confinement: list[bool] = []
    try:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        os.setsid()
        restrict = _prepare(request, confinement)
        code = _run(request, restrict, watched, channel, streams)
        _end_tree(confinement)
        if code is not None:
            _send(channel, {"exit": code})
    except OSError as error:
        _send(channel, {"error": error.strerror or str(error)})
    finally:
        _end_tree(confinement)
        os._exit(0)


def _end_tree(confinement: list[bool]) -> None:
    """Kill everything below the supervisor."""
    at_once = bool(confinement) and _cannot_signal_outside()
    pause, longest = 0.0005, 0.1 if at_once else 0.2  # between two looks at stubborn processes (uninterruptible sleep)
    while True:
        if at_once:
            try:
                # -1 signals all processes under the same restriction, in one kernel call, however fast they fork.
                os.kill(-1, signal.SIGKILL)
            except OSError:
                pass  # no process was left
        else:
            for pid in descendants(os.getpid()):
                kill(pid)
        if not reap_all()[1]:
            return
        select.select([], [], [], pause)
        pause = min(pause * 2, longest)


def _cannot_signal_outside() -> bool:
    """Whether signals outside are refused. Tried on the broker, which has the same user, before any kill(-1)."""
    try:
        os.kill(os.getppid(), 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        pass
    return False


def _run(request: _Request, restrict: _Restrict, watched: int, channel: socket.socket, streams: _Streams) -> int | None:
    """Return the command's exit code; None when it has to be killed."""
    told, tell = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        channel.close()
        _become(request, restrict, streams, tell)
    tell.close()
    for mine in streams:
        os.close(mine)
    with told:
        failure, listeners, _, _ = socket.recv_fds(told, PACKET, 1)
        if listeners:
            failure = told.recv(PACKET)
    if failure:
        raise OSError(0, failure.decode())
    _send(channel, {"started": pid})
    calls = None
    if listeners:
        writable = [path for path, access in request["grants"] if access == landlock.WRITE]
        calls = MetadataCalls(listeners[0], writable)
    return _watch(pid, watched, channel, request["limits"], calls)


def _watch(
    pid: int, watched: int, channel: socket.socket, limits: list[int], calls: MetadataCalls | None
) -> int | None:
    cpu_seconds, memory, processes, _ = limits
    waiting = select.poll()
    for descriptor in (os.pidfd_open(pid), watched, channel.fileno(), *((calls.listener,) if calls else ())):
        waiting.register(descriptor, select.POLLIN)
    while True:
        ready = dict(waiting.poll(_REAP_EVERY))
        exits, _ = reap_all()
        if pid in exits:
            return exits[pid]
        if channel.fileno() in ready:
            return None
        if watched in ready:
            heard = b"" if ready[watched] & select.POLLHUP else os.read(watched, 1)
            notes = {_PROCESSES: f"more than {processes} processes", _MEMORY: describe_excess(memory)}
            # Without the broker no process counts any more.
            _send(channel, {"note": notes.get(heard, "its broker has ended")})
            return 128 + signal.SIGKILL
        usage = resource.getrusage(resource.RUSAGE_SELF)
        if usage.ru_utime + usage.ru_stime > cpu_seconds:
            # The kernel counts what is done for the command here, links that are followed for one, as ours.
            _send(channel, {"note": f"more than {cpu_seconds} s of processor time for calls that are made for it"})
            return 128 + signal.SIGKILL
        if calls and calls.listener in ready:
            try:
                # A thread that waits for nothing but calls spares each call a poll of all descriptors.
                _thread.start_new_thread(_serve, (calls, pid))
                waiting.unregister(calls.listener)
            except RuntimeError:  # no thread to be had
                calls.answer()


def _serve(calls: MetadataCalls, pid: int) -> None:
    """Answer the calls of a command, which is killed if that fails: it would wait for ever."""
    try:
        calls.serve()
    except BaseException:
        kill(pid)
        raise


def _prepare(request: _Request, confinement: list[bool]) -> _Restrict:
    """Return the function that confines the command before exec; made before the fork so that a failure can be
    reported.

    Where Landlock covers signals, the supervisor restricts itself here and the command inherits it: sharing one
    restriction lets `_end_tree` kill all processes in one call; `confinement` is filled when that holds.
    """
    if not request["contained"]:
        return lambda: 0
    grants = [(path, access) for path, access in request["grants"]]
    rules, own = landlock.ruleset(grants, network=request["network"]), None
    if landlock.abi() >= landlock.SCOPES_SINCE:
        protected = [os.getpid()]
        own = rules
        if not reads_memory():
            # The supervisor reads it by files of /proc, which the command does not get: that takes a second rule set.
            own = landlock.ruleset([*grants, ("/proc", landlock.READ)], network=request["network"])
        landlock.restrict(own)
        confinement.append(True)
    else:
        protected = [*request["protected"], os.getppid(), os.getpid()]

    def program(*, listened: bool) -> bytes:
        return seccomp.build(request["families"], among_strangers=True, protected=protected, listened=listened)

    listening = program(listened=True)

    def restrict() -> int:
        if own != rules:
            landlock.restrict(rules)
        try:
            return seccomp.load(listening, listens=True)
        except OSError:  # a kernel that is too old, or a filter around us has the only listener
            return seccomp.load(program(listened=False))

    return restrict


def _become(request: _Request, restrict: _Restrict, streams: _Streams, tell: socket.socket) -> NoReturn:
    """Turn into the command, in the forked child.

    `tell` gets the listener of its filter, if there is one. It is closed by a successful exec, else gets the reason.
    """
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # Python ignores or catches these
            signal.signal(number, signal.SIG_DFL)
        os.chdir(request["cwd"])
        be_nice(0)
        _limit(*request["limits"])
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
        listener = restrict()
        if listener:
            socket.send_fds(tell, [LISTENER], [listener])
        # Everything but the three and `tell`, which exec closes.
        os.closerange(3, tell.fileno())
        os.closerange(tell.fileno() + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        os.execve(request["argv"][0], request["argv"], request["env"])  # noqa: S606 -- this is the broker's purpose
    except (OSError, ValueError) as error:
        reason = f"{request['argv'][0]}: {getattr(error, 'strerror', None) or error}"
        tell.send(reason.encode(errors="replace"))
    finally:
        os._exit(127)


def _limit(cpu_seconds: int, memory: int, processes: int, file_bytes: int) -> None:
    for kind, value in limits_of(cpu_seconds, memory, file_bytes):
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def be_nice(pid: int) -> None:
    """Lower the priority of a process (0: this one). Raising it, where we are nicer ourselves, is for root alone."""
    os.setpriority(os.PRIO_PROCESS, pid, max(NICENESS, os.getpriority(os.PRIO_PROCESS, pid)))


def limits_of(cpu_seconds: int, memory: int, file_bytes: int) -> list[tuple[int, int]]:
    """Return the resource limits of one process, as (number, value).

    RLIMIT_DATA counts the memory that a process can really fill; address space is bounded more widely, because runtimes
    such as Node's reserve far more of it than they use.
    """
    return [
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_AS, 8 * memory),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 4096),
        (resource.RLIMIT_NPROC, _MAX_OF_A_USER),
    ]


def _drop_capabilities() -> None:
    """Give up root's powers for good; a plain user has none to give up."""
    for capability in range(_LAST_CAPABILITY + 1):
        # Refused for numbers that the kernel does not know, and for every user but root.
        _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), *[ctypes.c_ulong(0)] * 3)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if _libc.capset(ctypes.byref(header), ctypes.byref(nothing)) != 0:
        raise OSError(ctypes.get_errno(), "capabilities could not be dropped")


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} refused")


def _send(channel: socket.socket, message: dict[str, Any]) -> None:
    try:
        channel.send(json.dumps(message).encode())
    except OSError:
        pass  # the daemon is gone; its end of file has ended the command already


def descendants(pid: int, most: int = 100_000) -> list[int]:
    """Return the ids of the processes below `pid`, parents first, at most `most`; they may change meanwhile."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < most:
        children = children_of(waiting.pop())
        found += children
        waiting += children
    return found[:most]


def reap_all() -> tuple[dict[int, int], bool]:
    """Collect every ended child: exit codes by process id (128 + signal number), and whether any child is left."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        code = os.waitstatus_to_exitcode(status)
        ended[pid] = code if code >= 0 else 128 - code


def kill(pid: int) -> None:
    """SIGKILL, if the process is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # ended meanwhile


def children_of(pid: int) -> list[int]:
    """Return the ids of the direct children of `pid`, of all its threads; none when it has ended."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 -- pathlib would triple the broker's start
        for thread in threads:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123 -- the same
                found += map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass  # it ended while we looked
    return found

"""Processes of GoClaw forked from one that has imported it, for tests that start many.

Importing the daemon takes most of a second of processor time. What a start from nothing does is tried where each
process is executed: `test_first_run`, `test_background`, `test_service`, `test_docker`.

`Template` is the side of the tests; `python -m tests.acceptance.forking FD` is the process that is forked. One message
of the socket between them is one order (with descriptors for the new process) or one report.
"""

import asyncio
import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NoReturn

from goclaw.common.config.sources import combine
from goclaw.llm import data, listed

ROOT = Path(__file__).resolve().parents[2]
IS_POSSIBLE = hasattr(os, "pidfd_open")
LONGEST_MESSAGE = 65_536
COMMANDS = ("lifecycle", "send", "tui", "config", "sessions", "access", "backup", "users")
MODULES = (
    *("goclaw.program.cli.serving", "goclaw.llm.openai_chat", "goclaw.clients.tui.client"),
    *(f"goclaw.program.cli.{name}" for name in COMMANDS),
    *("uvloop", "encodings.idna", "encodings.utf_8_sig"),
)
PACKAGES = (
    "channels",
    "common.config",
    "tools.execution",
    "gateway.intake",
    "memory",
    "tools.toolkit",
    "tools.builtin",
)
"""Packages whose modules are imported when a part is first used."""
WORKER = ".worker"
"""The embedder's process, which loads torch or onnxruntime."""


class Forked:
    """A process that was forked; the part of `asyncio.subprocess.Process` that tests use."""

    def __init__(self, pid: int, ended: "Future[int]") -> None:
        self.pid = pid
        self._ended = ended

    @property
    def returncode(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(asyncio.wrap_future(self._ended))

    def send_signal(self, number: int) -> None:
        if not self._ended.done():
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Template:
    """The process that is forked, seen from the tests; it ends with them."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._numbers = count()
        self._begun: dict[int, Future[int]] = {}
        self._ended: dict[int, Future[int]] = {}
        path = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": str(ROOT)}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=path,
                cwd=ROOT,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True, name="reports of forked processes")
        self._listener.start()

    async def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        descriptors: Mapping[int, int],
        *,
        own_session: bool = False,
    ) -> Forked:
        """Fork a process that runs the module `arguments[0]` with the others, as `python -m` does.

        `descriptors` says what becomes its 0, 1 and 2; what is left out is `/dev/null`.
        """
        number = next(self._numbers)
        begun = self._begun[number] = Future[int]()
        ended = self._ended[number] = Future[int]()
        order = {"number": number, "argv": list(arguments), "env": dict(environment)}
        order |= {"places": list(descriptors), "own_session": own_session}
        socket.send_fds(self._line, [json.dumps(order).encode()], list(descriptors.values()))
        try:
            return Forked(await asyncio.shield(asyncio.wrap_future(begun)), ended)
        except asyncio.CancelledError:
            begun.add_done_callback(lambda begun: Forked(begun.result(), ended).kill())
            raise

    def close(self) -> None:
        """End the template."""
        self._line.shutdown(socket.SHUT_RDWR)
        self._listener.join()
        self._line.close()
        self._process.wait()

    def _receive(self) -> bytes:
        try:
            return self._line.recv(LONGEST_MESSAGE)
        except ConnectionResetError:  # it ended with orders unread: it could not be imported
            return b""

    def _listen(self) -> None:
        while message := self._receive():
            report = json.loads(message)
            futures = self._begun if "pid" in report else self._ended
            futures.pop(report["number"]).set_result(report["pid"] if "pid" in report else report["code"])
        for future in (*self._begun.values(), *self._ended.values()):
            if not future.done():
                future.set_exception(ConnectionError("the process that is forked has ended"))


@cache
def template() -> Template:
    """The template of this process, started when it is first needed."""
    made = Template()
    atexit.register(made.close)
    return made


class _Orders:
    """The side of the template: forks, and reports how the forked ones end."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._selector = selectors.DefaultSelector()
        self._selector.register(line, selectors.EVENT_READ)

    def next_process(self) -> list[str] | None:
        """Return in each forked process with what it is to run; in the template itself at its end."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._line:
                    self._report(key.fd, *key.data)
                    continue
                message, descriptors, *_ = socket.recv_fds(self._line, LONGEST_MESSAGE, 3)
                if not message:
                    return None
                if (order := self._fork(json.loads(message), descriptors)) is not None:
                    return order

    def _fork(self, order: dict[str, Any], descriptors: Sequence[int]) -> list[str] | None:
        pid = os.fork()
        if pid == 0:
            return self._become(order, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, order["number"]))
        self._tell(number=order["number"], pid=pid)
        return None

    def _become(self, order: dict[str, Any], descriptors: Sequence[int]) -> list[str]:
        """Let go of all that is the template's, and take over what was ordered."""
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._line.detach()
        self._selector.close()
        if order["own_session"]:
            os.setsid()
        for place, descriptor in zip(order["places"], descriptors, strict=True):
            os.dup2(descriptor, place)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(order["env"])
        argv: list[str] = order["argv"]
        return argv

    def _report(self, descriptor: int, pid: int, number: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        self._tell(number=number, code=os.waitstatus_to_exitcode(status))

    def _tell(self, **report: int) -> None:
        with suppress(BrokenPipeError):  # the tests have ended
            self._line.send(json.dumps(report).encode())


def imported() -> Iterator[str]:
    """The names of the modules that a daemon or a command line imports sooner or later."""
    yield from MODULES
    for name in PACKAGES:
        package = import_module(f"goclaw.{name}")
        modules = (module.name for module in walk_packages(package.__path__, f"{package.__name__}."))
        yield from (module for module in modules if WORKER not in module)


def run(module: str) -> NoReturn:
    """Run a module as `python -m` does, and end the process."""
    code: object = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code or 0
    # What the interpreter does at its end, except that it takes no module apart: that takes as long as a start.
    threading._shutdown()  # type: ignore[attr-defined]  # joins the threads
    atexit._run_exitfuncs()
    if not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def prepare() -> None:
    """Import and make what every process of GoClaw does the same way, whatever its configuration."""
    for name in imported():
        import_module(name)
    combine([])
    # The model data are in memory already: no process of its own need read them (`goclaw.llm.listed`).
    listed.snapshot()
    setattr(data, listed.read_beforehand.__name__, nothing_to_read)


async def nothing_to_read(keys: Sequence[listed.Key], at: float) -> None:
    """Stand in for `goclaw.llm.listed.read_beforehand`."""


def main() -> None:
    """Wait for orders, and be what was ordered."""
    line = socket.socket(fileno=int(sys.argv[1]))
    prepare()
    gc.collect()
    gc.freeze()
    if argv := _Orders(line).next_process():
        sys.argv[1:] = argv[1:]
        run(argv[0])


if __name__ == "__main__":
    main()

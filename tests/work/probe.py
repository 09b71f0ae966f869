"""`python -P probe.py SOCKET … gateway`: the very same daemon, counted from inside.

Nothing in the product knows of this, and nothing here knows the product but for its folder: the same file counts any
commit. It imports nothing that the daemon would not. What the daemon stands on is wrapped when it is imported: Python's
profile hook counts calls from the first getUpdates on, `sqlite3.connect` gives connections that tell their statements,
uvloop's loop tells its tasks and its hops to threads. A thread that is not counted itself answers each line on SOCKET.
"""

import importlib.util
import json
import os
import re
import runpy
import socket
import sqlite3
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

Counts = dict[str, dict[str, int]]

POLL = "getUpdates"
LITERALS = re.compile(r"'(?:[^']|'')*'|\bx'[0-9A-Fa-f]*'|\b\d+(?:\.\d+)?\b")
SYNCHRONOUS = re.compile(r"\s*PRAGMA\s+synchronous\s*=\s*(\w+)", re.IGNORECASE)
SPACE = re.compile(r"\s+")


class Probe:
    """The counts: by what is counted, then by place."""

    def __init__(self) -> None:
        found = importlib.util.find_spec("goclaw")
        assert found is not None and found.origin
        self.root = f"{Path(found.origin).parent}/"
        self.calls: dict[CodeType, int] = defaultdict(int)
        self.others: Counts = {name: {} for name in ("statements", "transactions", "hops", "wakes", "tasks")}
        self.modules: list[str] = []
        """The modules there were when the first getUpdates was about to be sent."""
        self.listener = 0
        """The thread that answers, whose system calls are not the daemon's."""

    def add(self, kind: str, place: str) -> None:
        """Count one more."""
        counts = self.others[kind]
        counts[place] = counts.get(place, 0) + 1

    def look(self, frame: FrameType, event: str, argument: object) -> None:
        """Count a call: also each time that a coroutine or generator goes on."""
        if event == "call":
            self.calls[frame.f_code] += 1

    def snapshot(self) -> dict[str, Any]:
        """All counts so far."""
        calls: dict[str, int] = defaultdict(int)
        libraries: dict[str, int] = defaultdict(int)
        for code, count in list(self.calls.items()):
            path = code.co_filename
            if path.startswith(self.root):
                calls[f"{path.removeprefix(self.root)}:{code.co_qualname}"] += count
            elif path != __file__:
                libraries["/".join(Path(path).parts[-2:]) + f":{code.co_qualname}"] += count
        others = {name: dict(counts) for name, counts in self.others.items()}
        return {"calls": calls, "library-calls": libraries, **others}

    def answer_on(self, path: str) -> None:
        """Answer, until the process ends. `facts` asks for what does not grow.

        `modules` asks for those that are there now, `pulse` for the statements so far.
        """
        self.listener = threading.get_native_id()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            asker = listener.accept()[0].makefile("rw")
        for line in asker:
            asked = line.strip()
            if asked == "facts":
                answer: Any = {"modules": self.modules, "listener": self.listener}
            elif asked == "modules":
                answer = sorted(sys.modules)
            elif asked == "pulse":
                answer = sum(list(self.others["statements"].values()))
            else:
                # A name that shows in a trace of system calls where one count ends and the next begins.
                os.access(f"/work-mark-{asked}", os.F_OK)
                answer = self.snapshot()
            asker.write(json.dumps(answer) + "\n")
            asker.flush()


class CountedConnection:
    """What one connection of SQLite says of its statements."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.synchronous = "FULL"
        self.parts: list[str] = []

    def __call__(self, text: str) -> None:
        """Called with each statement, its values filled in."""
        statement = SPACE.sub(" ", LITERALS.sub("?", text)).strip()
        if text.startswith("--"):
            return
        self.probe.add("statements", statement)
        first = statement.split(" ", 1)[0].upper()
        if setting := SYNCHRONOUS.match(text):
            self.synchronous = setting[1].upper()
        elif first == "BEGIN":
            self.parts = []
        elif first in ("COMMIT", "END"):
            self.probe.add("transactions", f"{self.synchronous}: {' + '.join(self.parts) or 'nothing'}")
        elif first in ("INSERT", "UPDATE", "DELETE", "REPLACE"):
            words = statement.replace("INTO ", "").replace("FROM ", "").replace("OR IGNORE ", "").split(" ")
            self.parts.append(f"{words[0].lower()} {words[1]}")


def count_statements(probe: Probe) -> None:
    """Let every connection of SQLite tell its statements."""
    connect = sqlite3.connect

    def counted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(CountedConnection(probe))
        return connection

    sqlite3.connect = counted  # type: ignore[assignment]  # the same in all that is used of it


def name_of(function: Any) -> str:
    """The name of what a thread is to do, below partials, contexts and bound methods."""
    while isinstance(function, partial):
        # `asyncio.to_thread` asks a context to run the function.
        in_context = getattr(function.func, "__name__", "") == "run" and function.args
        function = function.args[0] if in_context else function.func
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', function)}"


def name_of_coroutine(coroutine: Any) -> str:
    """Where the code of a task is."""
    code = getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    return f"{'/'.join(Path(code.co_filename).parts[-2:])}:{code.co_qualname}" if code else str(type(coroutine))


class AfterImport(MetaPathFinder):
    """Changes a module when the daemon imports it, and never imports it before."""

    def __init__(self, name: str, change: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.change = change

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find it as usual, and add the change to its loading."""
        if name != self.name or (spec := PathFinder.find_spec(name, path)) is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def executed(module: ModuleType) -> None:
            execute(module)
            self.change(module)

        spec.loader.exec_module = executed  # type: ignore[method-assign]  # of this one loader
        return spec


def wrap(probe: Probe, owner: Any, method: str, kind: str, place: Callable[..., str]) -> None:
    """Count the calls of a method, by what `place` makes of their arguments."""
    original = getattr(owner, method)

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        probe.add(kind, place(*arguments))
        return original(self, *arguments, **options)

    setattr(owner, method, counted)


def count_loop(probe: Probe, uvloop: ModuleType) -> None:
    """Let the loop tell its tasks, its hops to threads, and how often a thread wakes it."""
    wrap(probe, uvloop.Loop, "create_task", "tasks", name_of_coroutine)
    wrap(probe, uvloop.Loop, "run_in_executor", "hops", by_executor)
    wrap(probe, uvloop.Loop, "call_soon_threadsafe", "wakes", lambda function, *rest: name_of(function))


def by_executor(executor: object, function: Callable[..., object], *arguments: object) -> str:
    """The place of a hop through an executor."""
    return name_of(partial(function, *arguments))


def begin_at_poll(probe: Probe, client: ModuleType) -> None:
    """Keep the list of modules at the first getUpdates, and count the main thread's calls from then on."""
    request = client.ClientSession._request

    def begin(self: Any, method: str, address: Any, **options: Any) -> Any:
        if POLL in str(address) and not probe.modules:
            probe.modules = sorted(sys.modules)
            client.ClientSession._request = request
            sys.setprofile(probe.look)
        return request(self, method, address, **options)

    client.ClientSession._request = begin


def count_database_hops(probe: Probe, core: ModuleType) -> None:
    """Let aiosqlite tell its hops: its connections have threads of their own."""
    wrap(probe, core.Connection, "_execute", "hops", lambda function, *rest: f"aiosqlite {name_of(function)}")


def main(path: str, arguments: list[str]) -> None:
    """Run the daemon, counted."""
    probe = Probe()
    threading.Thread(target=probe.answer_on, args=(path,), daemon=True).start()
    count_statements(probe)
    changes = {
        "aiohttp.client": partial(begin_at_poll, probe),
        "uvloop": partial(count_loop, probe),
        "aiosqlite.core": partial(count_database_hops, probe),
    }
    sys.meta_path[:0] = [AfterImport(name, change) for name, change in changes.items()]
    threading.setprofile(probe.look)
    sys.argv = ["goclaw", *arguments]
    runpy.run_module("goclaw", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

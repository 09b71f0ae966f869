"""Three daemons on one Postgres that are killed, paused, cut off and restarted, while many people talk to their bot."""

import asyncio
import faulthandler
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance import replica, replica_ledger
from tests.acceptance.blows import HOLE, PAUSE, RESET, RESTART, START, TERM, Life, life_of
from tests.acceptance.crash_points import POINTS
from tests.acceptance.daemon import RUNNING, Installation, installation
from tests.acceptance.fuzz import FAULTS, HANG_SECONDS, NEEDED, PATIENCE, pause
from tests.acceptance.model import FILE, EchoModel, echo_model
from tests.acceptance.people import CHATS, MEDIUM_ASKS, Habits, People, ended
from tests.acceptance.replica_ledger import ReplicaOutcome, close_books
from tests.acceptance.tcp_proxy import TcpProxy, tcp_proxy
from tests.acceptance.waiting import clock
from tests.fake_telegram.server import FakeTelegram
from tests.ports import free_port
from tests.postgres import Server, running

REPLICAS = 3
HOUR = 3600.0
AHEAD = (0.0, HOUR, -HOUR)
"""Seconds by which the daemons' clocks are ahead."""
STALL_SECONDS, LINGER_SECONDS = 1.5, 1.0
"""Shorter than the product's four and ten seconds, so that more happens in an hour."""
LONGEST_START, LONGEST_LIFE, LONGEST_REST = 1.0, 1.5, 1.0
LIFE_SECONDS, DRAIN_SECONDS, END_SECONDS = 120.0, 90.0, 900.0
"""For one life; without any progress, where everything is to be finished; and for all of that, on a machine whose
daemons are so starved that they take each other for dead."""
DISTURBED_SECONDS = 20.0
"""For so long after Postgres was away from it a start may be refused."""
LOOK_SECONDS = 0.1
SIMPLE_CHATS: Mapping[int, Habits] = {
    **{
        number: Habits((number,), ("plain", "exec", "both", "plain", "long", "file"), waiting=3)
        for number in range(31, 40)
    },
    -100: Habits((31, 32), ("plain", "exec", "plain"), waiting=4),
}
"""Where no one asks for more than an answer."""
MORE_CHATS: Mapping[int, Habits] = {
    number: Habits((number,), ("plain", "exec", "both", "plain", "file"), waiting=2) for number in range(21, 27)
}
PRESSING_CHATS: Mapping[int, Habits] = {
    number: Habits((number,), ("ask", "ask", "plain"), waiting=1, presses=True) for number in range(27, 31)
}
SLOW_EDIT: Mapping[str, Any] = {"status": 429, "retry_after": 2}
"""Ordered right before a pause: an edit is due when the next owner has the session."""
ALL_CHATS = {**CHATS, **MORE_CHATS, **PRESSING_CHATS}


@dataclass
class Replica:
    """One of the daemons: an installation, and its line to Postgres."""

    home: Installation
    proxy: TcpProxy
    disturbed: float = 0.0
    """When its line or Postgres was away last."""

    _read: int = 0
    """Bytes of the output that earlier processes wrote."""

    async def spawn(self) -> None:
        """Start the daemon and wait for nothing."""
        output = self.home.folder / "daemon.out"
        self._read = output.stat().st_size if output.exists() else 0
        await self.home.spawn()

    async def started(self) -> bool:
        """Wait until the process that was spawned runs; False: it has ended before."""
        process = self.home.process
        assert process is not None
        deadline = clock.monotonic() + LIFE_SECONDS
        while process.returncode is None and RUNNING not in self.said():
            if clock.monotonic() > deadline:
                raise TimeoutError("it does not start")
            await clock.sleep(LOOK_SECONDS / 2)
        return process.returncode is None

    def said(self) -> str:
        """What the latest process printed."""
        with (self.home.folder / "daemon.out").open("rb") as output:
            output.seek(self._read)
            return output.read().decode(errors="replace")


@dataclass
class ReplicaWorld:
    """People, a Telegram, a model, a Postgres, and daemons that do not live long."""

    folder: Path
    server: Server
    telegram: FakeTelegram
    model: EchoModel
    replicas: list[Replica]
    people: People
    seed: str
    stall: float = STALL_SECONDS
    found: ReplicaOutcome = field(default_factory=ReplicaOutcome)
    kills_at: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    talking: asyncio.Lock = field(default_factory=asyncio.Lock)
    restarting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self, lives: Iterator[tuple[int, Life]]) -> ReplicaOutcome:
        """Live through all these lives, let the last daemons finish, and check the books."""
        reacting = asyncio.create_task(self.people.react(), name="people")
        try:
            await self.bounded(self.first_start(), "the first start", LIFE_SECONDS)
            async with asyncio.TaskGroup() as group:
                for each in self.replicas:
                    group.create_task(self.live(each, lives))
            await self.bounded(self.finish(), "the end", END_SECONDS)
        finally:
            await ended(reacting)
        self.count()
        homes = [each.home for each in self.replicas]
        close_books(self.found, self.people, homes, self.folder / "work", self.server)
        return self.found

    def count(self) -> None:
        """Put what is counted on the way into the outcome."""
        self.found.kills = sum(self.kills_at.values())
        self.found.presses = sum(chat.presses for chat in self.people.chats.values())
        self.found.kills_at, self.found.troubles = dict(self.kills_at), dict(self.troubles)
        self.found.strange += [f"asked without a message: {messages}" for messages in self.model.unasked]

    async def first_start(self) -> None:
        """One daemon makes the schema; then everything that is written is watched."""
        home = self.replicas[0].home
        await home.start()
        await asyncio.to_thread(replica_ledger.watch, self.server)
        await home.stop()

    async def live(self, each: Replica, lives: Iterator[tuple[int, Life]]) -> None:
        """Start one daemon after the other, until all lives are over."""
        for number, life in lives:
            await self.bounded(self.one_life(each, life, number), f"life {number}", LIFE_SECONDS, each)
            await clock.sleep(life.rest * LONGEST_REST)

    async def bounded(self, work: Any, name: str, seconds: float, each: Replica | None = None) -> None:
        """Do `work`; if it does not end in time, note where everything stands, and go on."""
        faulthandler.dump_traceback_later(HANG_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                await work
        except TimeoutError:
            self.found.stuck.append(f"{name}: {await self.asked(replica_ledger.stuck)}")
            await self.dump(name)
            if each and each.home.process is not None:
                await each.home.kill()
        finally:
            faulthandler.cancel_dump_traceback_later()

    async def asked(self, look: Callable[[Server], list[str]]) -> list[str]:
        """What Postgres says, between two restarts."""
        async with self.restarting:
            return await asyncio.to_thread(look, self.server)

    async def dump(self, name: str) -> None:
        """Write down where everything stands."""
        for number, each in enumerate(self.replicas):
            (self.folder / f"{name}-{number}.txt").write_text(await each.home.dump())
        async with self.restarting:
            place = self.folder / f"{name} tables"
            place.mkdir(exist_ok=True)
            await asyncio.to_thread(replica_ledger.keep_tables, self.server, place)

    async def one_life(self, each: Replica, life: Life, number: int) -> None:
        """A daemon, from its start to its end."""
        async with self.talking:
            await self.people.talk(number, NEEDED.get(life.end.rpartition(" ")[0], ""))
        for name in life.faults:
            method, fault = FAULTS[name]
            self.telegram.fail(method, **fault)
        if life.end in POINTS and not life.trouble:
            each.home.arm(life.end, life.passing)
        try:
            await each.spawn()
            if life.end == START and not life.trouble:
                await clock.sleep(life.share * LONGEST_START)
            else:
                await self.lived(each, life, number)
        finally:
            await self.end(each, life)

    async def lived(self, each: Replica, life: Life, number: int) -> None:
        """Return when a daemon is to be dead, or is."""
        if life.trouble and life.early:
            await clock.sleep(life.trouble_share * LONGEST_START)
            await self.trouble(each, life)
        if not await each.started():
            self.check_end(each, life, number)
            return
        if life.trouble and not life.early:
            await clock.sleep(life.trouble_share * LONGEST_LIFE)
            await self.trouble(each, life)
        if life.end in POINTS:
            await self.until_the_point(each, life)
        else:
            await clock.sleep(life.share * LONGEST_LIFE)
        if life.end == TERM:
            await self.terminated(each, life, number)

    async def until_the_point(self, each: Replica, life: Life) -> None:
        process = each.home.process
        assert process is not None
        if life.trouble:
            each.home.arm(life.end, life.passing)
        deadline = clock.monotonic() + PATIENCE
        if life.end.startswith("shutdown"):
            await clock.sleep(life.share * LONGEST_LIFE)
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        while process.returncode is None and clock.monotonic() < deadline:
            await clock.sleep(0.01)

    async def terminated(self, each: Replica, life: Life, number: int) -> None:
        process = each.home.process
        assert process is not None
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(LIFE_SECONDS / 2):
            await process.wait()
        self.check_end(each, life, number)

    def check_end(self, each: Replica, life: Life, number: int) -> None:
        """What ends by itself has been told to, or could not reach Postgres."""
        process = each.home.process
        code = process.returncode if process else None
        if code == 0 and life.end == TERM:
            return
        if code == -signal.SIGKILL and life.end in POINTS:
            return
        if clock.monotonic() - each.disturbed < DISTURBED_SECONDS:
            self.found.refused_starts += 1
        else:
            self.found.unfinished.append(f"life {number} ended with {code}: {each.said()[-1_500:]}")

    async def end(self, each: Replica, life: Life) -> None:
        """Kill what still runs, and count it."""
        await each.home.kill()
        reached = life.end not in POINTS or not each.home.trigger.exists()
        each.home.disarm()
        if life.end == TERM:
            self.troubles[TERM] += 1
        else:
            self.kills_at[life.end if reached else "unreached"] += 1

    async def trouble(self, each: Replica, life: Life) -> None:
        """What a daemon outlives."""
        process, seconds = each.home.process, life.stalls * self.stall
        assert process is not None
        if process.returncode is not None:
            return
        self.troubles[life.trouble] += 1
        if life.trouble == PAUSE:
            if life.ends_with_reset:
                self.telegram.fail("editMessageText", **SLOW_EDIT)
                self.found.paused_edits += 1
            process.send_signal(signal.SIGSTOP)
            await clock.sleep(seconds)
            process.send_signal(signal.SIGCONT)
            if life.early:  # the connection that it was making may have timed out
                each.disturbed = clock.monotonic()
            return
        each.disturbed = clock.monotonic()
        if life.trouble == RESTART:
            await self.restart_postgres(life)
        if life.trouble == HOLE:
            each.proxy.hold()
            await clock.sleep(seconds)
        if life.trouble == RESET or (life.trouble == HOLE and life.ends_with_reset):
            each.proxy.reset()
        each.proxy.let_go()

    async def restart_postgres(self, life: Life) -> None:
        """What `pg_ctl restart -m immediate` does: no connection is ended in words, and the log is replayed."""
        async with self.restarting:
            self.disturb_all()
            await asyncio.to_thread(self.server.stop, signal.SIGQUIT)
            await clock.sleep(life.share)
            await asyncio.to_thread(self.server.start)
        self.disturb_all()

    def disturb_all(self) -> None:
        """Note that no daemon can be sure of Postgres now."""
        for each in self.replicas:
            each.disturbed = clock.monotonic()

    async def finish(self) -> None:
        """Let daemons live that may finish everything, and end them."""
        self.telegram.faults.waiting.clear()
        await self.start_all()
        if not await self.emptied(replica_ledger.open_work) or not await self.emptied(replica_ledger.jobs):
            self.found.stuck += await self.asked(replica_ledger.stuck) or await self.asked(replica_ledger.jobs)
            await self.dump("the end")
        for number, each in enumerate(self.replicas):
            if each.home.process and (code := await each.home.stop()) != 0:
                self.found.unfinished.append(f"the last daemon {number} ended with {code}")

    async def start_all(self) -> None:
        """Have all daemons run."""
        for each in self.replicas:
            each.disturbed = 0.0
            await each.spawn()
        for number, each in enumerate(self.replicas):
            if not await each.started():
                self.found.unfinished.append(f"the last daemon {number} does not start: {each.said()[-1_500:]}")

    def owner_of(self, session: str) -> Replica | None:
        """The daemon that works on a session."""
        addresses = replica_ledger.words(self.server, replica_ledger.OWNER_OF.format(session=session))
        owners = [
            each
            for each in self.replicas
            if each.home.process
            for address in addresses
            if f" pid {each.home.process.pid} " in address
        ]
        return owners[0] if owners else None

    async def emptied(self, look: Callable[[Server], list[str]]) -> bool:
        """Whether nothing is left of what `look` finds: False when that stays the same for long."""
        left, since = [""], clock.monotonic()
        while left and clock.monotonic() - since < DRAIN_SECONDS:
            found = [*await self.asked(look), *map(str, self.telegram.world.updates)]
            left, since = found, clock.monotonic() if found != left else since
            await clock.sleep(LOOK_SECONDS)
        return not left


def lives_of(seed: str, kills: int) -> Iterator[tuple[int, Life]]:
    """The lives of a world, numbered, until so many of them end with a kill."""
    number = 0
    while kills > 0:
        life = life_of(seed, number)
        yield number, life
        number += 1
        kills -= life.end != TERM


@asynccontextmanager
async def postgres() -> AsyncIterator[Server]:
    """A Postgres of its own."""
    room = running()
    server = await asyncio.to_thread(room.__enter__)
    try:
        yield server
    finally:
        await asyncio.to_thread(room.__exit__, None, None, None)


@asynccontextmanager
async def replica_world(
    folder: Path,
    seed: str,
    *,
    chats: Mapping[int, Habits] = ALL_CHATS,
    stall: float = STALL_SECONDS,
    fenced: bool = True,
    called: bool = False,
) -> AsyncIterator[ReplicaWorld]:
    """A world below `folder`; no daemon runs yet. `called`: Telegram calls them, through a proxy before all of them."""
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(FakeTelegram())
        model = await stack.enter_async_context(echo_model(lambda said, piece: pause(seed, said, piece)))
        server = await stack.enter_async_context(postgres())
        ports = [free_port() for _ in range(REPLICAS)] if called else []
        front = await stack.enter_async_context(tcp_proxy(*ports)) if called else None
        replicas = list[Replica]()
        people = People(telegram, seed, chats)
        users = sorted({user for habits in chats.values() for user in habits.users})
        for number in range(REPLICAS):
            proxy = await stack.enter_async_context(tcp_proxy(server.port))
            address = server.url.replace(str(server.port), str(proxy.port))
            options: dict[str, Any] = {"store": address, "workspace": str(folder / "work")}
            options["replica"] = {"stall_seconds": stall, "name": f"replica-{number}"}
            options |= {"policy": MEDIUM_ASKS} if chats is not SIMPLE_CHATS else {}
            made = installation(folder / str(number), telegram, model.url, forks=True, **options)
            home = await stack.enter_async_context(made)
            home.module = "tests.acceptance.replica"
            home.environment = environment_of(number, fenced=fenced)
            people_of = {f"telegram:{user}": {"name": f"User {user}"} for user in users}
            await asyncio.to_thread(home.write_users, people_of)  # through the proxy, which runs in this loop
            if front:
                home.config["http"] = {"port": ports[number]}
                home.config["telegram"] |= {
                    "mode": "webhook",
                    "webhook": {"url": f"http://127.0.0.1:{front.port}/hook"},
                }
                home.write_config()
            replicas.append(Replica(home, proxy))
        (folder / "work").mkdir(parents=True, exist_ok=True)
        (folder / "work" / FILE).write_text("given")
        yield ReplicaWorld(folder, server, telegram, model, replicas, people, seed, stall)


def environment_of(number: int, *, fenced: bool) -> Mapping[str, str]:
    """What `tests.acceptance.replica` is told, for the daemon with this number."""
    told = {replica.LINGER: str(LINGER_SECONDS), replica.CLOCK: str(AHEAD[number])}
    return told | {replica.MARKS: "1"} | ({} if fenced else {replica.UNFENCED: "1"})

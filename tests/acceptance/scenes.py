"""Plays the scene of a crash point while the daemon dies there and comes again, and checks what became of it."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.books import Copies, Seen, read_chat
from tests.acceptance.crash_points import AGAIN, ANY, MARKED, NEVER, ONCE, POINTS, Point, Stage
from tests.acceptance.daemon import Installation, installation
from tests.acceptance.model import EFFECTS, END, FILE, UNKNOWN, EchoModel, echo_model, unanswered
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram

FIRST_USER = 1_000
SCENE_SECONDS = 40.0
"""In which a scene has ended, with two starts in it, on a busy machine."""
OPEN_WORK = (
    "SELECT 'turn ' || id FROM inbox WHERE state != 'done' UNION ALL SELECT 'step ' || turn || ' ' || name FROM steps "
    "UNION ALL SELECT 'delivery ' || id FROM deliveries WHERE state != 'sent'"
)


def open_work(home: Installation) -> list[str]:
    """What the daemon has not finished."""
    return [str(row[0]) for row in home.read(OPEN_WORK)]


@dataclass
class Played:
    """A scene that has ended."""

    faults: list[str]
    """What did not become what the table says."""
    start: float
    """Seconds that the second daemon needed until it polled."""


async def play(stage: Stage, name: str, point: Point) -> Played:
    """Let the daemon, which runs, die at the point; returns when the next one has done everything and runs on."""
    home = stage.home
    left = set(open_work(home))
    home.arm(name, point.passing)
    try:
        async with asyncio.timeout(SCENE_SECONDS):
            acting = asyncio.create_task(point.scene(stage), name=f"scene of {name}")
            try:
                code = await home.wait()
                if home.trigger.exists() or code != -9:
                    home.disarm()
                    return Played([f"the daemon ended with {code}, but not there"], await home.start(stage.telegram))
                start = await home.start(stage.telegram)
                await acting
                await eventually(lambda: set(open_work(home)) <= left)
            finally:
                acting.cancel()
                for gate in stage.gates:
                    gate.opened.set()
    except TimeoutError:
        dump = await home.dump()
        home.disarm()
        return Played([f"it did not end: {sorted(set(open_work(home)) - left)}\n{dump}"], 0.0)
    return Played(list(differences(stage, point)), start)


def differences(stage: Stage, point: Point) -> Sequence[str]:
    """What is not as the table says."""
    seen = read_chat(stage.telegram.sent(stage.chat))
    copies = Copies.of(seen)
    found = [f"unmarked twice: {piece}" for piece in copies.doubled()]
    found += [f"not an answer: {message.text[:80]}" for message in seen if not message.is_known]
    found += _answer(copies, seen, stage.name, point.answer)
    for suffix in point.also:
        found += _answer(copies, seen, f"{stage.name}{suffix}", ONCE)
    if point.effects is not None and (ran := _effects(stage)) != point.effects:
        found.append(f"the tool ran {ran} times instead of {point.effects}")
    answer = " ".join(message.text for message in seen)
    if point.unknown != (UNKNOWN in answer):
        found.append(f"the model was{'' if UNKNOWN in answer else ' not'} told that the outcome is unknown")
    asked = sum(stage.name in {identity for identity, _, _ in unanswered(body)} for body in stage.model.requests)
    if point.asked is not None and asked != point.asked:
        found.append(f"the model was asked {asked} times instead of {point.asked}")
    if (whole := stage.home.read("PRAGMA quick_check")) != [("ok",)]:
        found.append(f"the database: {whole}")
    return found


def _answer(copies: Copies, seen: Sequence[Seen], name: str, wanted: str) -> list[str]:
    """Whether an answer came as often as it should, whole."""
    plain, marked = copies.plain[f"{name} {END}"], copies.marked[f"{name} {END}"]
    head = f"answer {name}"
    begun = (copies.plain[head], copies.marked[head])
    counts = {ONCE: [(1, 0)], MARKED: [(0, 1)], AGAIN: [(1, 1)], NEVER: [(0, 0)], ANY: [(1, 0), (0, 1), (1, 1)]}[wanted]
    if (plain, marked) in counts and (wanted != NEVER or begun == (0, 0)):
        return [] if wanted == NEVER or copies.has(head) else [f"the beginning of the answer to {name} is missing"]
    texts = [message.text[:80] for message in seen]
    return [f"{name} was answered {plain} times, and {marked} times marked, instead of {wanted}: {texts}"]


def _effects(stage: Stage) -> int:
    log = stage.home.workspace / EFFECTS
    return log.read_text().split().count(stage.name) if log.exists() else 0


async def play_all(home: Installation, telegram: FakeTelegram, model: EchoModel, names: Sequence[str]) -> list[str]:
    """One after the other, on one installation; returns what is not as it should be."""
    users = {f"telegram:{FIRST_USER + number}": {"name": f"User {number}"} for number in range(len(names))}
    home.write_users(users)
    home.config["telegram"]["groups"] = [-(FIRST_USER + number) for number in range(len(names))]
    home.write_config()
    home.module = "tests.acceptance.crashing"
    home.workspace.mkdir(parents=True, exist_ok=True)
    (home.workspace / FILE).write_text("given")
    await home.start(telegram)
    faults: list[str] = []
    for number, name in enumerate(names):
        point, user = POINTS[name], FIRST_USER + number
        stage = Stage(home, telegram, model, f"m{number:02}x", user, -user if point.in_group else user)
        played = await play(stage, name, point)
        faults += [f"{name}: {fault}" for fault in played.faults]
        if home.process is None:
            await home.start(telegram)
    if (code := await home.stop()) != 0:
        faults.append(f"the last daemon ended with {code}")
    return faults


async def play_side_by_side(folder: Path, names: Sequence[str], worlds: int) -> list[str]:
    """The points shared among so many installations; returns what is not as it should be."""

    async def world(number: int) -> list[str]:
        async with AsyncExitStack() as stack:
            telegram = await stack.enter_async_context(FakeTelegram())
            model = await stack.enter_async_context(echo_model())
            home = await stack.enter_async_context(installation(folder / str(number), telegram, model.url, forks=True))
            return await play_all(home, telegram, model, names[number::worlds])

    found = await asyncio.gather(*(world(number) for number in range(worlds)))
    return [fault for faults in found for fault in faults]

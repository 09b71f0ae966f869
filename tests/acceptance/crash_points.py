"""Every boundary on a message's way (docs/architecture.md), by name, with what people see after a kill there.

`crashing` makes the daemon pass these points; each has a scene, which is what a person does so that it is passed.
The scenes are played to their end while the daemon dies and comes again; then the table below must hold. It is the
failure matrix: what a kill can cost is one question to the model more, a tool whose outcome is unknown, or an answer
that comes once more and says so. Never a message, never a second effect, never an unmarked second answer.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.acceptance.daemon import Installation
from tests.acceptance.model import END, QUESTION, EchoModel, Gate
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import BOT_NAME

STOP_REPLIES = ("Stopped.", "Stopping: ", "Nothing is running.")
STOPPING = "Stopping; unfinished work resumes"
ONCE, MARKED, AGAIN, NEVER = "once", "once, marked", "once and once more, marked", "never"
ANY = "once, or (also) marked"
"""How often people see the answer."""


@dataclass
class Stage:
    """Where a scene is played: a chat of its own."""

    home: Installation
    telegram: FakeTelegram
    model: EchoModel
    name: str
    """The id of its (first) message."""
    user: int
    chat: int
    """The user's private chat, or a group."""
    gates: list[Gate] = field(default_factory=list)

    async def say(self, text: str) -> None:
        """The user writes; in a group by the name of the bot."""
        if self.chat < 0:
            await self.telegram.world.say(f"{BOT_NAME} {text}", user=self.user, chat=self.chat)
        else:
            await self.telegram.world.say(text, user=self.user)

    def held(self, said: str, streamed: int) -> Gate:
        """The model stops after so many pieces of the answer to `said`."""
        gate = self.model.gate(said, streamed=streamed)
        self.gates.append(gate)
        return gate

    async def told(self, text: str) -> None:
        """Wait for a message of the bot that has `text` in it."""
        await eventually(lambda: self.has_told(text))

    def has_told(self, text: str) -> bool:
        """Whether a message of the bot has `text` in it."""
        return any(text in sent.text for sent in self.telegram.sent(self.chat))

    async def taken_in(self, text: str) -> None:
        """Wait until the daemon has a message on disk."""
        await eventually(lambda: any(text in str(body) for (body,) in self.home.read("SELECT body FROM inbox")))

    async def previewed(self) -> None:
        """Wait until a draft or a growing message shows the answer, or the daemon died: then there may be none."""
        process = self.home.process
        assert process is not None
        await eventually(lambda: self.is_previewed() or process.returncode is not None)

    def is_previewed(self) -> bool:
        """Whether people see a part of the answer."""
        return self.name in str(self.telegram.world.drafts.get(self.chat, "")) or self.has_told(self.name)


Scene = Callable[[Stage], Coroutine[Any, Any, None]]


async def plain(stage: Stage) -> None:
    await stage.say(f"{stage.name} plain")
    await stage.told(f"answer {stage.name} {END}")


async def unanswered(stage: Stage) -> None:
    """Nothing of the answer is written before the daemon is dead: it would go on beside the poll that kills it."""
    gate, process = stage.held(stage.name, streamed=0), stage.home.process
    assert process is not None
    await stage.say(f"{stage.name} plain")
    await eventually(lambda: process.returncode is not None)
    gate.opened.set()
    await stage.told(f"answer {stage.name} {END}")


async def command(stage: Stage) -> None:
    await stage.say(f"{stage.name} exec")
    await stage.told(END)


async def writing(stage: Stage) -> None:
    await stage.say(f"{stage.name} write")
    await stage.told(END)


async def long(stage: Stage) -> None:
    await stage.say(f"{stage.name} long")
    await stage.told(END)


async def file(stage: Stage) -> None:
    await stage.say(f"{stage.name} file")
    await stage.told(END)


async def question(stage: Stage) -> None:
    """The user answers once, when the question is seen: that answer is not lost either."""
    await stage.say(f"{stage.name} ask")
    await stage.told(f"{QUESTION} {stage.name}?")
    await stage.say("red")
    await stage.told(END)


async def slowly(stage: Stage) -> None:
    """So slowly that the answer is shown while it is written."""
    gate = stage.held(stage.name, streamed=2)
    await stage.say(f"{stage.name} plain")
    await stage.previewed()
    gate.opened.set()
    await stage.told(END)


async def stop(stage: Stage) -> None:
    """What waits behind the stopped turn runs when a /stop that is not acknowledged comes again: it is not for that."""
    gate, later = stage.held(f"{stage.name} plain", streamed=1), stage.held(f"{stage.name}b plain", streamed=1)
    await stage.say(f"{stage.name} plain")
    await eventually(gate.reached.is_set)
    await stage.say(f"{stage.name}b plain")
    await stage.taken_in(f"{stage.name}b plain")
    await stage.say("/stop")
    await eventually(lambda: any(stage.has_told(reply) for reply in STOP_REPLIES))
    later.opened.set()
    await stage.told(f"{stage.name}b {END}")


async def steer(stage: Stage) -> None:
    await stage.say("/queue steer")
    await stage.told("Queue mode: steer")
    gate = stage.held(stage.name, streamed=0)
    await stage.say(f"{stage.name} exec")
    await eventually(gate.reached.is_set)
    await stage.say(f"{stage.name}b plain")
    await stage.taken_in(f"{stage.name}b plain")
    gate.opened.set()
    await stage.told(END)


async def interrupt(stage: Stage) -> None:
    await stage.say("/queue interrupt")
    await stage.told("Queue mode: interrupt")
    gate = stage.held(f"{stage.name} plain", streamed=1)
    await stage.say(f"{stage.name} plain")
    await eventually(gate.reached.is_set)
    await stage.say(f"{stage.name}b plain")
    await stage.told(END)


async def compact(stage: Stage) -> None:
    for number in range(3):
        await stage.say(f"{stage.name}{number} plain")
        await stage.told(f"answer {stage.name}{number} ")
    await stage.say("/compact")
    # After a kill it may find the work done.
    await eventually(lambda: stage.has_told("Compaction completed!") or stage.has_told("Nothing to compact"))


async def terminate(stage: Stage) -> None:
    """The daemon is asked to end while the model writes; the answer goes on when it is about to, or dead."""
    gate = stage.held(stage.name, streamed=1)
    await stage.say(f"{stage.name} plain")
    await eventually(gate.reached.is_set)
    before, process = stage.home.output.count(STOPPING), stage.home.process
    assert process is not None
    process.terminate()
    await eventually(lambda: stage.home.output.count(STOPPING) > before or process.returncode is not None)
    gate.opened.set()
    await stage.told(END)


async def terminate_at_once(stage: Stage) -> None:
    """The daemon is asked to end, and the model does not go on before it is dead."""
    gate = stage.held(stage.name, streamed=1)
    await stage.say(f"{stage.name} plain")
    await eventually(gate.reached.is_set)
    process = stage.home.process
    assert process is not None
    process.terminate()
    await eventually(lambda: process.returncode is not None)
    gate.opened.set()
    await stage.told(END)


@dataclass(frozen=True)
class Point:
    """A place to die, and what becomes of it."""

    scene: Scene
    meaning: str
    answer: str = ONCE
    effects: int | None = None
    """How often the tool ran."""
    unknown: bool = False
    """The model is told that the outcome of the tool is unknown."""
    asked: int | None = None
    """How often the model was asked, over both lives."""
    passing: int = 1
    """At which passing of the point it dies."""
    also: tuple[str, ...] = ()
    """What the names of further messages end with: each of them is answered once."""
    in_group: bool = False


POINTS: Mapping[str, Point] = {
    # In
    "poll answered": Point(plain, "Telegram gave the message out; nothing is written", asked=1),
    "inbox before": Point(plain, "the message is written, not committed", asked=1),
    "inbox after": Point(plain, "it is on disk; Telegram does not know", asked=1),
    "acknowledge before": Point(unanswered, "the poll that acknowledges it has not left"),
    "acknowledge after": Point(unanswered, "Telegram has the offset"),
    "turn before": Point(plain, "the turn is about to begin", asked=1),
    # The turn
    "step user before": Point(plain, "what was said goes into the transcript", asked=1),
    "step user after": Point(plain, "it is there", asked=1),
    "model before": Point(plain, "the model is about to be asked", asked=1),
    "model accepted": Point(plain, "the model answers: it is asked again, which costs money only", asked=2),
    "step model:1 before": Point(command, "the answer with a call is complete and not recorded", effects=1, asked=3),
    "step model:1 after": Point(command, "it is recorded, before its tool runs: nobody asks again", effects=1, asked=2),
    "end before": Point(plain, "the last answer, the end and the delivery are written, not committed", asked=2),
    "end after": Point(plain, "the delivery is promised, as being sent", MARKED, asked=1),
    # A tool that must not run twice
    "intent before": Point(command, "it has not begun, and nothing says that it would", effects=1),
    "intent after": Point(command, "it has not begun, but who knows?", effects=0, unknown=True),
    "exec before": Point(command, "inside the tool, before its effect", effects=0, unknown=True),
    "exec after": Point(command, "inside the tool, after its effect", effects=1, unknown=True),
    "step tool before": Point(command, "its result is written, not committed", effects=1, unknown=True),
    "step tool after": Point(command, "its result is there", effects=1),
    "write after": Point(writing, "a file is written; that is not recorded, and done again: the same file"),
    # A question to a person
    "question before": Point(question, "the question is written, not committed"),
    "question after": Point(question, "it is on disk; nobody has seen it"),
    "promise before": Point(question, "its message to the chat is written, not committed"),
    "promise after": Point(question, "its message is promised"),
    "answered before": Point(question, "the person's answer is written, not committed"),
    "answered after": Point(question, "the answer is on disk; the turn does not know"),
    # Out
    "sending before": Point(long, "the mark of the second part is not on disk, so it was surely not sent"),
    "sending after": Point(long, "the mark is on disk: the second part may have been sent"),
    "send before": Point(plain, "the request has not left", MARKED),
    "send accepted": Point(plain, "Telegram has it, the answer is lost", AGAIN),
    "arrived before": Point(plain, "Telegram has answered; that is not recorded", AGAIN),
    "arrived after": Point(plain, "it is recorded that all parts are there"),
    "sent before": Point(plain, "the delivery is not recorded as done"),
    "sent after": Point(plain, "it is recorded as done"),
    "part before": Point(long, "between two parts of a long answer: only the second one comes marked", passing=2),
    "part accepted": Point(long, "a part arrived, the answer is lost: only that part comes again", passing=2),
    "file before": Point(file, "a file is about to be uploaded"),
    "file accepted": Point(file, "the file arrived, the answer is lost"),
    # The preview
    "draft before": Point(slowly, "a draft is about to be shown"),
    "draft accepted": Point(slowly, "a draft is shown"),
    "preview intent before": Point(slowly, "nothing says that a message will grow", in_group=True),
    "preview intent after": Point(slowly, "it is on disk that one may grow", in_group=True),
    "preview before": Point(slowly, "a message that will grow is about to be sent", in_group=True),
    "preview accepted": Point(slowly, "it is there, and its id is not remembered", in_group=True),
    "remember before": Point(slowly, "its id is about to be remembered", in_group=True),
    "remember after": Point(slowly, "its id is remembered", in_group=True),
    "edit before": Point(slowly, "the answer is about to be put into it", in_group=True),
    "edit accepted": Point(slowly, "the answer stands in it: once more the same edit shows nothing", in_group=True),
    # Commands and queue modes
    "stop before": Point(stop, "/stop is written, not committed", NEVER, also=("b",)),
    "stop after": Point(stop, "/stop is on disk; the turn has not ended", NEVER, also=("b",)),
    "step settle before": Point(stop, "the stopped turn's last words are not recorded", NEVER, also=("b",)),
    "step settle after": Point(stop, "they are recorded", NEVER, also=("b",)),
    "settled before": Point(stop, "the reply to the command is written, not committed", NEVER, also=("b",)),
    "settled after": Point(stop, "the reply is promised", NEVER, also=("b",)),
    "step join before": Point(
        steer, "a message joins the turn that runs; that is not committed", effects=1, also=("b",)
    ),
    "step join after": Point(steer, "it has joined", effects=1, also=("b",)),
    "interrupt before": Point(interrupt, "a message takes the turn's place; that is not committed", NEVER, also=("b",)),
    "interrupt after": Point(interrupt, "it is on disk; the turn has not ended", NEVER, also=("b",)),
    "compaction before": Point(compact, "a summary is written, not committed", NEVER, also=("0", "1", "2")),
    "compaction after": Point(compact, "it is there; the person does not know", NEVER, also=("0", "1", "2")),
    # The end
    "shutdown turns before": Point(terminate_at_once, "asked to end; a turn runs"),
    "shutdown flush before": Point(terminate, "the turns have ended; deliveries go out", ANY),
    "shutdown outbox before": Point(terminate, "everything was sent"),
    "shutdown lanes before": Point(terminate, "nothing is left"),
}
"""Every point, in the order of a message's way."""

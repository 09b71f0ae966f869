"""`goclaw send`: one message to the daemon, or to a temporary one of our own, and its answer."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import Annotated

import orjson
import typer

from goclaw.clients.tui.client import Received, RemoteDaemon
from goclaw.clients.tui.link import Ended, Link, PendingReplies, ReplyDeadline
from goclaw.clients.tui.text import artifact_lines, option_lines, text_of, title_of
from goclaw.common.auth.users import login_name
from goclaw.common.config.packaged import Packaged
from goclaw.common.config.schema import Config
from goclaw.common.core.container import daemon_command
from goclaw.common.core.events import (
    MessageStored,
    Notice,
    Outcome,
    Question,
    QuestionAsked,
    StreamRestarted,
    TextStreamed,
    ThinkingStreamed,
    TurnEvent,
    TurnFinished,
)
from goclaw.common.core.messages import SAID, Artifact, AssistantMessage, UserMessage
from goclaw.common.core.redact import printable
from goclaw.common.core.wire import (
    Accepted,
    ArtifactFrame,
    Attached,
    FilesReply,
    Older,
    Refused,
    SessionsReply,
    Status,
    event_frame,
)
from goclaw.errors import StateError, StoreInUse
from goclaw.program.cli.base import print_message
from goclaw.program.cli.options import Insecure, TokenFile, Url, load, reach
from goclaw.program.cli.process import listens_soon

LOST = (
    "the daemon stopped before it had answered. The message is not lost: the daemon answers it at the next start, in "
    "session {session}."
)
"""The message when the daemon does not come back."""
BY_ITSELF = (
    f"no daemon is running, so this command answers on its own and then exits; {daemon_command('start')} starts "
    "a daemon"
)
"""The line on standard error where there is no daemon."""
ELSEWHERE = (
    "no gateway is running here, but others use the same database ({others}), so this command cannot answer on its "
    f"own: start one here with {daemon_command('start')}, or ask one of theirs with `--url ADDRESS` and an access token"
)
"""The error where gateways run elsewhere alone."""
_NO_PACKAGES = Packaged()


async def send_and_wait(
    config: Config,
    text: str,
    session: str,
    *,
    as_json: bool = False,
    remote: RemoteDaemon | None = None,
    packaged: Packaged = _NO_PACKAGES,
) -> tuple[str, bool]:
    """Send one message or command and wait for its end.

    With `as_json`, every event of the turn is printed as a line of JSON as it comes. Without, a question that a turn
    waits on goes to standard error, with the command that answers it. `packaged` is the part of `config` from packages.

    The daemon may be restarted meanwhile, and the connection may break: the answer is the same, and printed once.

    Returns:
        What to print, and whether it went well.

    Raises:
        StateError: no daemon answers, the session is not open to the person, or the daemon does not come back.
    """
    link = Link(remote or config.socket_path, session, limit=1)
    report = _Reporter(session, link.person, as_json=as_json)
    sending = _Sending(link, text, report)
    async with nullcontext() if remote else _any_daemon(config, packaged):
        running = asyncio.create_task(link.run(sending), name="waiting for the answer")
        try:
            running.add_done_callback(sending.gave_up)
            ended = await sending.ended
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    is_told = as_json and sending.is_turn
    if ended.text and not is_told:
        report.set_apart()
    return "" if is_told else ended.text, ended.went_well


class _Reporter:
    """Prints the progress of a turn for `goclaw send`."""

    def __init__(self, session: str, person: str, *, as_json: bool) -> None:
        self._session = session
        self._person = person
        self.as_json = as_json
        self._begun = ""
        """Text of an answer that was cut and is being continued."""
        self._has_said = False

    def set_apart(self) -> None:
        """Print the empty line between the text so far and the text that follows."""
        if self._has_said:
            print(flush=True)

    def event(self, event: TurnEvent) -> None:
        """Print an event of the turn that answers."""
        if self.as_json:
            frame = event_frame(event)
            print(orjson.dumps({"name": frame.name, **frame.event}).decode(), flush=True)
        elif isinstance(event, QuestionAsked):
            self._print(event.question)
        elif isinstance(event, MessageStored):
            if isinstance(event.message, AssistantMessage):
                self._print_text(event.message)
            if not isinstance(event.message, UserMessage):
                self._print_artifacts(event.message.artifacts)
        elif isinstance(event, Notice):
            print_message(event.text)

    def _print_text(self, message: AssistantMessage) -> None:
        """Print the text before a tool call; the last answer is printed when the turn has ended."""
        self._begun += message.text
        if message.is_interim:
            self.set_apart()
            print(printable(self._begun.strip()), flush=True)
            self._begun, self._has_said = "", True
        elif message.calls and self._begun:
            self._begun = f"{self._begun.rstrip()}\n\n"  # as in chats (`turns.turn`)

    def _print_artifacts(self, artifacts: Sequence[Artifact]) -> None:
        """Print what the agent hands over: texts as its words, files on standard error."""
        for each in artifacts:
            if each.kind == SAID:
                self.set_apart()
                print(printable(each.text), flush=True)
                self._has_said = True
            elif each.is_file:
                for line in artifact_lines(each, self._person):
                    print_message(line)

    def report_wait(self, event: QuestionAsked) -> None:
        """Report that an earlier turn of the session waits for a person, and holds up ours."""
        if not self.as_json:
            print_message("waiting for an earlier message of this session")
        self.event(event)

    def _print(self, question: Question) -> None:
        """Print the whole question, and how to answer from another terminal."""
        print_message(f"waiting for a person: {title_of(question)}")
        for line in text_of(question).splitlines():
            print_message(f"  {line}")
        send_and_wait = f"goclaw send --session {shlex.quote(self._session)}"
        if question.kind == "approval":
            print_message(f"answer with: {send_and_wait} '/approve {question.id}' (or '/deny {question.id}')")
            return
        for line in option_lines(question):
            print_message(line)
        print_message(f"answer with: {send_and_wait} ANSWER (or '/deny {question.id}')")


class _Sending:
    """Implements `link.Watcher`: waits for the end of one message, through breaks and restarts of the daemon."""

    def __init__(self, link: Link, text: str, report: _Reporter) -> None:
        self._link = link
        self._report = report
        self._pending = PendingReplies()
        self._pending.on_send(link.submit(text))
        self._is_new = True
        self._asked: list[QuestionAsked] = []
        """Questions of an earlier turn: printed once it is known that our turn waits for it."""
        self._patience = ReplyDeadline(lambda: self._fail(StateError(LOST.format(session=link.session))))
        self._is_command = text.startswith("/")
        self._began = False
        """Whether a part of the answer was printed that may be void after a restart."""
        self.is_turn = True
        """Whether the answer came from a turn, and was printed as events."""
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    async def on_attach(self, attached: Attached, *, resumed: bool) -> None:
        """Print rows of the replies that were missed; at first, keep open questions of earlier turns."""
        now = attached.now
        if self._is_new:
            self._is_new = False
            self._asked = [QuestionAsked(now.turn, attached.session, each) for each in now.questions if each.has_turn]
            return
        self._patience.start()
        if self._began and now.turn in self._pending:
            self._began = False
            self._report.event(StreamRestarted(now.turn, attached.session, "the daemon was restarted"))
        for row in attached.history:
            if row.turn in self._pending:
                self._report.event(row)
        for ended in self._pending.caught_up(attached.history, now):
            outcome = Outcome.ANSWERED if ended.went_well else Outcome.FAILED
            self._report.event(TurnFinished(ended.turn, attached.session, outcome, ended.text))
            self._end(ended)

    async def went_on(self, attached: Attached) -> None:
        """Stop the deadline: no event was missed."""
        self._patience.end()

    async def on_frame(self, received: Received) -> None:
        match received:
            case Accepted():
                if ended := self._pending.on_acceptance(received, self._link.taken):
                    self._end(ended, of_turn=False)
                while self._pending and self._asked:
                    self._report.report_wait(self._asked.pop(0))
            case Refused():
                self._fail(StateError(f"the daemon refused: {received.reason}"))
            case Status() | Older() | SessionsReply() | FilesReply() | ArtifactFrame():
                pass
            case _:
                self._handle_event(received)

    async def on_disconnect(self, reason: str) -> None:
        """Wait for the daemon to come back; fail if none ever was there."""
        if self._is_new:
            self._fail(StateError(reason))
        else:
            self._patience.start()

    async def on_refusal(self, reason: str) -> None:
        """Fail: the session is not open to the person."""
        self._fail(StateError(reason))

    def gave_up(self, running: asyncio.Task[None]) -> None:
        """Fail: the link does not run any more."""
        if not running.cancelled() and not self.ended.done():
            self.ended.set_exception(running.exception() or StateError("the connection to the daemon ended"))

    def _handle_event(self, event: TurnEvent) -> None:
        self._patience.end()
        if isinstance(event, Notice) and self._is_command:
            return  # the answer to the command says it
        was_ours = event.turn in self._pending
        ended = self._pending.on_event(event)
        if was_ours or event.turn in self._pending:
            self._began = isinstance(event, TextStreamed | ThinkingStreamed)
            self._report.event(event)
        elif isinstance(event, QuestionAsked) and event.question.has_turn:
            self._report.report_wait(event)
        if ended:
            self._end(ended)

    def _end(self, ended: Ended, *, of_turn: bool = True) -> None:
        self.is_turn = of_turn
        self._patience.end()
        if not self.ended.done():
            self.ended.set_result(ended)

    def _fail(self, error: StateError) -> None:
        self._patience.end()
        if not self.ended.done():
            self.ended.set_exception(error)


@asynccontextmanager
async def _any_daemon(config: Config, packaged: Packaged) -> AsyncIterator[None]:
    """Use the running daemon, or else run one in this process, under the same lock."""
    if await listens_soon(config):
        yield
    else:
        from goclaw.program.app import open_app
        from goclaw.tools.toolkit.parts import parts_of

        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(open_app(config, with_channels=False, parts=parts_of(packaged)))
            except StoreInUse as error:
                raise StateError(ELSEWHERE.format(others=error.others)) from error
            print_message(BY_ITSELF)
            yield


def send(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="TEXT", help="The message, or a command such as /status, with or without quotes."),
    ],
    session: Annotated[str, typer.Option(help="The conversation; default: your own.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print events as lines of JSON.")] = False,
    url: Url = "",
    token_file: TokenFile = None,
    insecure: Insecure = False,
) -> None:
    """Send one message and print the answer. Exit code 1 when it could not be answered."""
    loaded, remote, text = load(context), None, " ".join(words)
    if url:
        remote, session = reach(url, token_file, session, insecure=insecure)
    own, packaged = f"tui:{login_name()}", loaded.packaged
    sending = send_and_wait(loaded.config, text, session or own, as_json=as_json, remote=remote, packaged=packaged)
    answer, went_well = asyncio.run(sending)
    if answer:
        print(printable(answer))
    if not went_well:
        raise typer.Exit(1)

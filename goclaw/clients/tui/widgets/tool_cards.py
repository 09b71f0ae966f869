"""Tool calls as cards that fold: one for each call, also when events repeat or change order after a disconnect."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from goclaw.clients.tui.text import (
    artifact_lines,
    data_size,
    error_words,
    hint,
    one_line,
    printable,
    seconds,
    whole_seconds,
)
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import AgentProgress, ToolFinished, ToolStarted
from goclaw.common.core.messages import Artifact, ToolCall, ToolResult

HINT_LENGTH = 60
DOING_LENGTH = 140
"""Characters shown of a tool's own description of its activity and result (`toolkit.templates`)."""
RESULT_LENGTH, ERROR_LENGTH = 100, 300
"""Characters of a result in a folded card; what went wrong mostly says at its end what helps."""
SHOWN_LINES = 200
"""Lines of a result in an open card; the transcript has all of it."""
LINE_LENGTH = 2_000


class ToolCard(Static):
    """A card for one call: a line with state, name, activity and time; opened, also its input and full result."""

    DEFAULT_CSS = """
    ToolCard { height: auto; margin: 1 0 0 0; padding: 0 1; color: $text-muted; border-left: solid $surface-lighten-2; }
    ToolCard.-failed { border-left: solid $error; }
    ToolCard:hover { background: $boost; }
    """

    class ArtifactWanted(Message):
        """The card is open, and its content must be fetched."""

        def __init__(self, blob: str) -> None:
            super().__init__()
            self.blob = blob

    def __init__(self, name: str, given: Mapping[str, Any], clock: Clock, *, is_open: bool, person: str) -> None:
        super().__init__()
        self._person = person
        self._tool = name
        self._given = given
        self._open = is_open
        self._content: str | None = None
        self._is_error = False
        self._has_failed = False
        """It ended with an error, or was denied."""
        self._took = ""
        self._doing = ""
        """The activity, in the tool's own words."""
        self._inner = ""
        """The activity of an agent that the call has started."""
        self._outcome = ""
        """The outcome, in the tool's own words."""
        self._artifacts: Sequence[Artifact] = ()
        self._fetched: dict[str, str] = {}
        """The beginnings of artifacts, by their keys."""
        self._clock = clock
        self._began: float | None = None
        """None: it was asked for and may still wait, for others or for a person."""
        self._show()

    @property
    def is_running(self) -> bool:
        """Return whether the result is still pending."""
        return self._content is None

    def start(self, age: float = 0.0, doing: str = "") -> None:
        """Show that the tool has been running for `age` seconds."""
        self._began = self._clock.monotonic() - age
        if doing:
            self._doing = doing
            self._show()

    def went_on(self, doing: str) -> None:
        """Show the activity inside the call: a line below it until the result arrives."""
        self._inner = doing
        self._show()

    def finish(
        self,
        content: str,
        *,
        is_error: bool,
        took: float | None = None,
        about: float = 0.0,
        outcome: str = "",
        artifacts: Sequence[Artifact] = (),
        denied: bool = False,
    ) -> None:
        """Show the result; `took` in seconds if known, else `about`, which is shown without parts of a second."""
        self._content, self._is_error = error_words(content) if is_error else content, is_error
        self._outcome, self._artifacts, self._has_failed = outcome, artifacts, is_error or denied
        self._request_artifacts()
        if took is not None:
            self._took = seconds(took)
        elif not self._took and about >= 1:
            self._took = f"~{whole_seconds(about)}"
        self.set_class(self._has_failed, "-failed")
        self._show()

    def tick(self) -> None:
        """Show how long it has been running."""
        if self.is_running:
            self._show()

    def fold(self, *, is_open: bool) -> None:
        """Open or close the card."""
        self._open = is_open
        self._request_artifacts()
        self._show()

    def artifact(self, blob: str, text: str, *, cut: bool) -> None:
        """Show how an artifact begins, if it is one of this call."""
        if any(each.blob == blob for each in self._artifacts):
            self._fetched[blob] = f"{text}\n… cut here" if cut else text
            self._show()

    def _request_artifacts(self) -> None:
        if self._open:
            for each in self._artifacts:
                if each.blob not in self._fetched:
                    self.post_message(self.ArtifactWanted(each.blob))

    def on_click(self, event: events.Click) -> None:
        """Fold this one card on a click; selecting text does not."""
        if not self.screen.get_selected_text():
            event.stop()
            self.fold(is_open=not self._open)

    def _show(self) -> None:
        self.update(Content("\n").join([self._headline(), *(self._inside() if self._open else self._render_compact())]))

    def _headline(self) -> Content:
        took = self._running_for() if self.is_running else self._took
        sign, style = (
            ("●", "$warning") if self.is_running else ("✗", "$error") if self._has_failed else ("✓", "$success")
        )
        return Content.assemble(
            (f"{sign} ", style),
            (printable(self._tool), "bold $foreground"),
            f"  {shown}" if (shown := self._summarize()) else "",
            f"  {took}" if took else "",
        )

    def _summarize(self) -> str:
        """Return what the call does, or did: its hint is true only while it runs."""
        told = self._doing if self.is_running else self._outcome
        return one_line(told, DOING_LENGTH) if told else hint(self._given, HINT_LENGTH)

    def _running_for(self) -> str:
        spent = 0.0 if self._began is None else self._clock.monotonic() - self._began
        return whole_seconds(spent) if spent >= 1 else ""

    def _render_compact(self) -> list[Content]:
        if self._content is None:
            return [Content(f"  ↳ {one_line(self._inner, DOING_LENGTH)}")] if self._inner else []
        kept = [line for each in self._artifacts for line in _lines("\n".join(artifact_lines(each, self._person)))]
        if self._outcome:
            return kept
        lines = self._content.strip().splitlines()
        if not lines:
            return [Content("  (no output)"), *kept]
        more = f"  … {len(lines) - 1} more lines" if len(lines) > 2 else "  … 1 more line" if len(lines) == 2 else ""
        length = ERROR_LENGTH if self._is_error else RESULT_LENGTH
        return [Content(f"  {one_line(lines[0], length)}{more}"), *kept]

    def _inside(self) -> list[Content]:
        given = [
            Content.assemble((f"  {printable(name)}: ", "$text-accent"), _indent(_text_of(value)))
            for name, value in self._given.items()
        ]
        if self._content is None:
            return [*given, *self._render_compact()]
        shown = [Content.styled("  ─ result", "$text-accent"), *_lines(self._content or "(no output)")]
        for each in self._artifacts:
            text = self._fetched.get(each.blob, "…")
            shown += [Content.styled(f"  ─ {_label_of(each)}", "$text-accent"), *_lines(text)]
        return [*given, *shown]


def _label_of(artifact: Artifact) -> str:
    return f"{one_line(artifact.name, 60)} · {data_size(artifact.size)}"


def _lines(text: str) -> list[Content]:
    """Return as much of a text as a card has room for."""
    lines = text.rstrip().splitlines() or ["(no output)"]
    shown = [Content(f"  {printable(line[:LINE_LENGTH]).expandtabs(4)}") for line in lines[:SHOWN_LINES]]
    if len(lines) > SHOWN_LINES:
        shown.append(Content(f"  … {len(lines) - SHOWN_LINES} more lines"))
    return shown


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _indent(text: str) -> str:
    first, *rest = printable(text[: SHOWN_LINES * 100]).splitlines() or [""]
    return "\n".join([first, *(f"    {line}" for line in rest)])


CallKey = tuple[str, str]
"""A turn and the id of a call in it; models may use an id again in another answer."""


class Cards:
    """The calls of the turn that runs, and those of rows that came from the past."""

    def __init__(self, clock: Clock, person: Callable[[], str]) -> None:
        """`person`: returns the actor key of the person at this terminal."""
        self._clock = clock
        self.person = person
        self._unfinished: dict[CallKey, ToolCard] = {}
        self._asked_at: dict[CallKey, float] = {}
        self._finished: set[CallKey] = set()
        self._early: dict[CallKey, tuple[ToolResult, float]] = {}
        """Results, and when they were stored, of calls whose rows are not on the screen."""
        self.are_open = False
        """Whether new cards are open at first."""

    def add_calls(self, turn: str, calls: Iterable[ToolCall], at: float) -> list[ToolCard]:
        """New cards for the calls of an answer that was stored at `at` (epoch seconds)."""
        cards = []
        for call in calls:
            key = (turn, call.id)
            self._finished.discard(key)
            self._asked_at[key] = at
            if key not in self._unfinished:
                self._unfinished[key] = self._card(call.name, call.input)
                cards.append(self._unfinished[key])
        return cards

    def _card(self, name: str, given: Mapping[str, Any]) -> ToolCard:
        return ToolCard(name, given, self._clock, is_open=self.are_open, person=self.person())

    def older(self) -> "Cards":
        """For rows from before those on the screen: an id that is used again there is another call."""
        cards = Cards(self._clock, self.person)
        cards.are_open = self.are_open
        cards._early = self._early
        return cards

    def adopt(self, older: "Cards") -> None:
        """Take over the calls of older rows; their results may be known already or are still to come."""
        for key, card in older._unfinished.items():
            if early := self._early.pop(key, None):
                result, at = early
                _finish(card, result, about=at - older._asked_at[key])
            elif key not in self._unfinished:
                self._unfinished[key] = card
                self._asked_at[key] = older._asked_at[key]

    def start_tool(self, event: ToolStarted, age: float = 0.0) -> list[ToolCard]:
        """A tool runs, since `age` seconds; a new card when nothing was known of it."""
        key = (event.turn, event.call_id)
        if key in self._finished:
            return []  # repeated after a disconnect
        new = []
        if key not in self._unfinished:
            self._unfinished[key] = self._card(event.name, event.input)
            new.append(self._unfinished[key])
        self._unfinished[key].start(age, event.hint)
        return new

    def show_activity(self, event: AgentProgress | ToolFinished) -> None:
        """Show that a tool runs, or the activity of an agent that it has started."""
        card = self._unfinished.get((event.turn, event.call_id))
        if card is None:
            return
        if isinstance(event, AgentProgress):
            card.went_on(f"{event.agent} › {event.doing}")
        else:
            card.finish(
                event.content,
                is_error=event.is_error,
                took=event.seconds,
                outcome=event.hint,
                artifacts=event.artifacts,
                denied=event.denied,
            )

    def add_result(self, turn: str, result: ToolResult, at: float) -> None:
        """End the call with the result that became a row at `at`."""
        key = (turn, result.call_id)
        self._finished.add(key)
        if card := self._unfinished.pop(key, None):
            asked_at = self._asked_at.pop(key, at)
            _finish(card, result, about=at - asked_at)
        else:
            self._early[key] = (result, at)

    def tick(self) -> None:
        """Advance the timers by a second."""
        for card in self._unfinished.values():
            card.tick()

    def forget(self) -> None:
        """Forget the ids of an ended turn, which may be used again."""
        self._unfinished.clear()
        self._asked_at.clear()
        self._finished.clear()

    def clear(self) -> None:
        """Forget everything, because the screen is cleared."""
        self.forget()
        self._early.clear()


def _finish(card: ToolCard, result: ToolResult, about: float) -> None:
    card.finish(
        result.content,
        is_error=result.is_error,
        about=about,
        outcome=result.hint,
        artifacts=result.artifacts,
        denied=result.denied,
    )

"""What a person sees and does at the terminal client, without waiting for the process to be idle."""

import asyncio
import unicodedata
from typing import Any

from rich.cells import cell_len
from rich.console import RenderableType
from textual._compositor import LayoutUpdate
from textual.app import App
from textual.events import Key
from textual.keys import REPLACED_KEYS, _character_to_key, _get_unicode_name_from_key
from textual.pilot import Pilot
from textual.screen import Screen as TextualScreen
from textual.strip import Strip

from goclaw.clients.tui.app import Farewell, Terminal
from goclaw.clients.tui.widgets.picker import SessionPicker
from goclaw.common.core.clock import RealClock

PATIENCE = 30.0
GLANCE_SECONDS = 0.01
"""Between two looks: time in which the daemon and the timers go on."""
SOON_SECONDS = 0.01
"""How long the client waits in these tests (`conftest`) before it comes back or looks again at what it shows."""
OFTEN_SECONDS = 0.05
"""The same for what costs more."""
QUIET_ROUNDS = 2
REST_ROUNDS = 10
"""Glances within which everything that is under way is over: a pause of the whole machine is one of them."""
MOST_ROUNDS = 50
NAMES = {" ": "space", "/": "slash", "\n": "ctrl+j", ".": "full_stop"}


class Hand(Pilot[Any]):
    """A pilot that goes on as soon as the widgets have done what they were told.

    Textual's own one waits after each key until the process uses no processor time, in steps of 20 ms: on a busy
    machine it waits longer than the client works, and beside a daemon in the same process it waits for that, too.
    """

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.app.post_message(_key_event(key))
            await self.settle()

    async def pause(self, delay: float | None = None) -> None:
        """Let the others work for a moment, and paint."""
        await RealClock().sleep(GLANCE_SECONDS if delay is None else delay)
        await self.settle(1)

    async def settle(self, rounds: int = QUIET_ROUNDS) -> None:
        """Wait until no widget has a message left, `rounds` times in a row, and what was changed is painted."""
        quiet = 0
        for _ in range(MOST_ROUNDS):
            if not self.app.is_running or not await self._wait_for_screen():
                return
            self.app.screen._on_timer_update()
            quiet = quiet + 1 if self._is_quiet() else 0
            if quiet == rounds:
                return

    def _is_quiet(self) -> bool:
        screen = self.app.screen
        pumps = [self.app, *screen.walk_children(with_self=True)]
        return not (screen._callbacks or screen._layout_required or any(pump.message_queue_size for pump in pumps))


class Screen:
    """What a person sees and does."""

    def __init__(self, app: App[Farewell]) -> None:
        self.terminal = app
        self.pilot = Hand(app)
        self._painted = asyncio.Event()
        display = app._display

        def displayed(screen: TextualScreen[Any], picture: RenderableType | None) -> None:
            self._painted.set()
            display(screen, picture)

        app._display = displayed  # type: ignore[method-assign, assignment]  # Textual tells of no paint

    def text(self) -> str:
        """The screen as lines of text."""
        return text_of(self.terminal)

    async def until(self, words: str, *, gone: bool = False) -> str:
        """Wait until `words` can be read (or no more) and what came with them is there, too; returns the screen."""
        try:
            async with asyncio.timeout(PATIENCE):
                seen = self.text()
                while (words in seen) == gone or await self._changed_now():
                    if (words in seen) == gone:
                        await self.changed()
                    seen = self.text()
                return seen
        except TimeoutError:
            raise AssertionError(f"{words!r} {'stays' if gone else 'does not come'}:\n{self.text()}") from None

    async def _changed_now(self) -> bool:
        """Let the client finish what it does; whether it painted something."""
        self._painted.clear()
        await self.pilot.settle()
        return self._painted.is_set()

    async def changed(self) -> None:
        """Wait until the client paints by itself."""
        self._painted.clear()
        await self._painted.wait()

    def tick(self) -> None:
        """Bring what shows a time up to it, as the client does once a second."""
        assert isinstance(self.terminal, Terminal)
        self.terminal._incoming.tick()

    async def leave_for_a_moment(self) -> None:
        """Go to another session and come back, which clears the conversation, and undo what the keys have done.

        There must be no daemon: it would be attached to on the way. The client greets and begins as at its start.
        """
        app = self.terminal
        assert isinstance(app, Terminal)
        if isinstance(app.screen, SessionPicker):
            await self.press("escape")
        session = app._link.session
        app._incoming._greeted, app._switching._home = False, ""
        for each in (f"{session}-aside", session):
            await app._switching._switch(each)
            await self.pilot.pause()
        app._prompt.pop_text()
        while app._layout:
            app.action_layout()
        if app._conversation._cards.are_open:
            app.action_fold()
        if not app._todos._open:
            app.action_todos()
        app.clear_notifications()
        app._prompt.focus()
        app.action_jump()
        await self.pilot.settle()

    async def type(self, text: str) -> None:
        """Type a text into the input."""
        for letter in text:
            self.terminal.post_message(_key_event(NAMES.get(letter, letter)))
        await self.pilot.settle()

    async def press(self, *keys: str) -> str:
        """Press keys; returns the screen."""
        await self.pilot.press(*keys)
        await self.pilot.pause()
        return self.text()


async def rest() -> None:
    """Wait until everything that is under way should be over."""
    for _ in range(REST_ROUNDS):
        await RealClock().sleep(GLANCE_SECONDS)


def _key_event(key: str) -> Key:
    """What the driver makes of a key that has this name in Textual."""
    if len(key) == 1 and not key.isalnum():
        key = _character_to_key(key)
    character: str | None
    try:
        character = unicodedata.lookup(_get_unicode_name_from_key(REPLACED_KEYS.get(key, key)))
    except KeyError:
        character = key if len(key) == 1 else None
    return Key(key, character)


def text_of(app: App[Any]) -> str:
    """The words on the screen where they stand, without the lines that have none."""
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    assert isinstance(update, LayoutUpdate)
    lines = (_line_of(list(strips)) for strips in update.strips)
    return "\n".join(line for line in lines if line)


def _line_of(strips: list[Strip]) -> str:
    """The characters of a line; after wide ones everything keeps its column."""
    text = "".join(segment.text for strip in strips for segment in strip)
    if cell_len(text) != len(text):
        text, column = "", 0
        for segment in Strip.join(strips).simplify().discard_meta():
            if segment.text.strip():
                text = text.ljust(column) + segment.text
            column += cell_len(segment.text)
    return text.replace("\xa0", " ").rstrip()

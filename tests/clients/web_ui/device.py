"""A browser as one device of a person: its own cookies and screen, and what goes wrong in it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from playwright.sync_api import Browser, BrowserContext, Dialog, Locator, Page, Response, expect

from tests.clients.web_ui.daemon import WebDaemon
from tests.clients.web_ui.seen import unseen

Theme = Literal["light", "dark"]
SIZES = {360: 740, 768: 1024, 1440: 900}
"""Height of the screen by its width."""
WATCH = """
window.ran = [];
addEventListener('securitypolicyviolation', (event) => {
  ran.push(`violation ${event.violatedDirective} ${event.sample}`);
});
"""
"""Counts what a page must not do; text of others calls `ran.push`, too, if it is ever run."""
EXPECTED_STATUS = frozenset({401, 404, 409})
"""Refusals that the page shows in words; the browser's console has them as errors."""


@dataclass
class Device:
    """A page, wired to a daemon."""

    daemon: WebDaemon
    context: BrowserContext
    page: Page
    problems: list[str] = field(default_factory=list)
    """Errors of the page, dialogs, and what its policy stopped."""

    # Ways in

    def open(self, place: str = "") -> None:
        """Go to the page."""
        self.page.goto(f"{self.daemon.url}/{place}")

    def sign_in(self, token: str) -> None:
        """Sign in with an access token, and go to the chat."""
        answer = self.context.request.post(f"{self.daemon.url}/web/login", data={"token": token})
        assert answer.ok, answer.text()
        self.open()
        self.expect_ready()

    def sign_in_broken(self, token: str) -> None:
        """Sign in where no connection is opened then."""
        assert self.context.request.post(f"{self.daemon.url}/web/login", data={"token": token}).ok
        self.open()
        expect(self.box).to_be_visible()

    def sign_in_by_hand(self, token: str) -> None:
        """The same, as a person does it."""
        self.open()
        self.page.get_by_text("Sign in with a token").click()
        self.page.get_by_label("Access token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        self.expect_ready()

    def expect_ready(self) -> None:
        """The chat is there, and connected."""
        expect(self.box).to_be_visible()
        unseen(self.page.locator("#state"))

    # What a person sees and does

    @property
    def box(self) -> Locator:
        """Where a person writes."""
        return self.page.locator("#text")

    @property
    def messages(self) -> Locator:
        """The conversation."""
        return self.page.locator("#messages")

    @property
    def answers(self) -> Locator:
        """The agent's answers."""
        return self.page.locator("chat-message.answer")

    @property
    def said(self) -> Locator:
        """The person's messages."""
        return self.page.locator("chat-message.user")

    def say(self, text: str) -> None:
        """Write a message and send it."""
        self.box.fill(text)
        self.page.get_by_role("button", name="Send", exact=True).click()

    def button(self, name: str) -> Locator:
        """A button by its whole name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def go(self, panel: str) -> Locator:
        """Open a panel; returns its place."""
        self.page.evaluate("place => { location.hash = `#/${place}` }", panel)
        place = self.page.locator("#panel")
        expect(place.locator(".column").first).to_be_visible()
        expect(place.get_by_text("Loading …")).to_have_count(0)
        return place

    def ran(self) -> Sequence[str]:
        """Everything that ran or was stopped in the page that is none of ours."""
        found: list[str] = self.page.evaluate("window.ran")
        return [*found, *self.problems]


@contextmanager
def device(
    browser: Browser, daemon: WebDaemon, width: int = 1440, theme: Theme = "light", **more: object
) -> Iterator[Device]:
    """A new device, until the block ends."""
    size = {"width": width, "height": SIZES[width]}
    phone = {"has_touch": True, "is_mobile": True} if width < 700 else {}
    context = browser.new_context(viewport=size, color_scheme=theme, **phone, **more)  # type: ignore[arg-type]  # by name
    context.add_init_script(WATCH)
    page = context.new_page()
    made = Device(daemon, context, page)

    def answered(response: Response) -> None:
        if response.status >= 400 and response.status not in EXPECTED_STATUS:
            made.problems.append(f"{response.status} {response.url}")

    def asked(dialog: Dialog) -> None:
        made.problems.append(f"dialog {dialog.message}")
        dialog.dismiss()

    page.on("pageerror", lambda error: made.problems.append(f"error {error}"))
    page.on("dialog", asked)
    page.on("response", answered)
    try:
        yield made
    finally:
        context.close()

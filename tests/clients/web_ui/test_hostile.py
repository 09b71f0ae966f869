"""Texts that run scripts in other pages, in every field that models, people, tools and files can fill: none runs."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

from goclaw.common.core.messages import (
    NAMED,
    SAID,
    SENT,
    Artifact,
    AssistantMessage,
    Message,
    ToolCall,
    ToolResult,
    UserMessage,
)
from tests.clients.web_ui.daemon import ANN, Json, WebDaemon, running
from tests.clients.web_ui.device import device
from tests.clients.web_ui.seen import seen
from tests.gateway.servers.web import hostile_texts

pytestmark = [pytest.mark.browser, pytest.mark.promise("P-web-html")]

CORPUS = (
    *hostile_texts.SCRIPTS,
    *(place for link in hostile_texts.LINKS[:4] for place in hostile_texts.in_markdown(link)),
    *(list(hostile_texts.in_markdown(link))[number % 9] for number, link in enumerate(hostile_texts.LINKS[4:])),
)
OTHERS = "telegram:77"
OPEN = """
() => {
  const closed = [...document.querySelectorAll('#messages details:not([open])')];
  closed.forEach((each) => { each.open = true; });
  return closed.length;
}
"""
READ = """
async (place) => {
  const closed = [...place.querySelectorAll('details:not([open])')].slice(0, 80);
  closed.forEach((each) => { each.open = true; });
  const bodies = closed.map((each) => each.querySelector('.prose')).filter(Boolean);
  const until = performance.now() + 20_000;
  while (bodies.some((body) => !body.hasChildNodes() || body.innerHTML.includes('Loading …'))) {
    if (performance.now() > until) throw new Error('a file was not read');
    await new Promise((done) => setTimeout(done, 20));
  }
}
"""
"""Opens what is folded in a panel, and waits for the files that are fetched then."""
CLIMB = "(list) => { list.scrollTop = Math.min(list.scrollTop, 800) - 700; return list.scrollTop <= 0; }"
FEW = hostile_texts.SCRIPTS[:8]
NAMES = [text for text in CORPUS if "/" not in text and "\x00" not in text and "\n" not in text][:60]
"""Those that can be the name of a file."""
ANSWERS: list[Json] = [
    {"when": "Say it", "text": "\n\n".join(CORPUS), "thinking": "\n".join(CORPUS), "deltas": 60},
    {"when": "Ask it", "calls": [{"id": "q", "name": "ask_user", "input": {"questions": [
        {"question": "\n\n".join(CORPUS)[:1_900], "title": FEW[0], "summary": FEW[1], "options": list(FEW[:4])}]}}]},
    {"when": "Plan it", "calls": [{"id": "t", "name": "todo_write", "input": {"todos": [
        {"content": text, "status": "pending" if number else "in_progress"} for number, text in enumerate(FEW)]}}]},
    {"when": "Do it", "calls": [{"id": "e", "name": "exec", "input": {"command": f"cat hostile.txt; : {FEW[3]!r}"}}]},
]  # fmt: skip
LOOK = r"""
() => {
  const acting = /^(script|iframe|frame|object|embed|base|meta|link|style)$/i;
  const leading = /^(href|src|action|formaction|xlink:href|srcdoc|data)$/i;
  const harmless = /^(#|https?:|mailto:|\/|data:image|blob:)/i;
  const found = [];
  for (const element of document.querySelectorAll('#app *')) {
    if (acting.test(element.localName)) found.push(element.outerHTML.slice(0, 200));
    for (const { name, value } of element.attributes)
      if (/^on/i.test(name) || (leading.test(name) && !harmless.test(value)))
        found.push(`${element.localName} ${name}=${value}`);
    if (element.localName === 'img' && new URL(element.src, location).origin !== location.origin)
      found.push(element.outerHTML);
  }
  return found;
}
"""
"""Whatever acts and is none of ours."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDaemon]:
    users = {ANN: {"name": FEW[0], "roles": ["admin"]}, OTHERS: {"name": FEW[1], "roles": ["user"]}}
    config = {"policy": {"always_ask": ["exec"]}}
    made = WebDaemon(tmp_path_factory.mktemp("hostile"), ANSWERS, users, config)
    made.prepare()
    made.seed(OTHERS, _spoken(), 3)
    (made.workspace / "hostile.txt").write_text("\n".join(CORPUS))
    (made.workspace / "memory").mkdir()
    (made.workspace / "MEMORY.md").write_text("\n\n".join(CORPUS))
    for name in NAMES:
        (made.workspace / name[:200]).write_text("x")
        (made.workspace / "memory" / f"{name[:150]}.md").write_text(name)
    with running(made):
        yield made


def _spoken() -> list[Message]:
    """Return a conversation in which each text of the corpus stands in each field of a message."""
    messages: list[Message] = []
    for number, text in enumerate(CORPUS):
        text = text.replace("\x00", "")
        kept = (
            Artifact("diff", f"{number:064x}", "text/x-diff", text[:60], 12),
            Artifact(SAID, f"{number:064x}", "text/markdown", text[:60], 12, text),
            Artifact(SENT, f"{number:064x}", text[:60], text[:60], 12),
        )
        named = (Artifact(NAMED, f"{number:064x}", "image/svg+xml", text[:60], 12),)
        messages += [
            UserMessage(text),
            AssistantMessage(text, (ToolCall(f"c{number}", text[:60], {text: text, "list": [text]}),), artifacts=named),
            ToolResult(f"c{number}", text[:60], text, number % 3 == 0, hint=text, call_hint=text, artifacts=kept),
        ]
    return messages


def nothing_acts(page: Page) -> None:
    """Nothing in the page acts that is none of ours."""
    assert page.evaluate(LOOK) == []


def test_the_corpus_is_large() -> None:
    assert len(set(CORPUS)) >= 200


def test_no_stored_message_call_or_result_acts(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(ANN))
        here.open("#/s/telegram%3A77")
        seen(here.messages, "alert")
        opened = 0
        for _ in range(60):
            # All cards open: arguments and results stand in the page only then.
            opened += here.page.evaluate(OPEN)
            nothing_acts(here.page)
            top = here.messages.evaluate(CLIMB)
            here.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)))")
            if top and opened >= len(CORPUS):
                break
        assert opened >= len(CORPUS), "not every call was looked at"
        assert here.ran() == []


def test_nothing_that_is_streamed_asked_or_planned_acts(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(ANN))
        here.say("\n\n".join(CORPUS)[:20_000])
        seen(here.answers.last, "All done.")
        here.say("Say it")
        seen(here.answers.last, "alert")
        here.page.locator("thought-note summary").last.click()
        here.say("Ask it")
        expect(here.button(FEW[1])).to_be_enabled()
        nothing_acts(here.page)
        here.button(FEW[1]).click()
        here.say("Plan it")
        seen(here.page.locator("#todos summary"), re.compile("script|SCRIPT"))
        here.say("Do it")
        here.button("Allow").click()
        tool = here.page.locator("tool-card").last
        expect(tool).to_have_attribute("data-state", "done")
        tool.locator("summary").click()
        nothing_acts(here.page)
        assert here.ran() == []


def test_no_name_of_a_file_person_or_session_acts(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(ANN))
        seen(here.page.locator("#person"), FEW[0][:6])  # a long name is cut
        names = [text[:80].replace("/", "_") for text in CORPUS[:9]]
        files = [FilePayload(name=name, mimeType="text/plain", buffer=b"x") for name in names]
        here.page.locator("#picker").set_input_files(files)
        expect(here.page.locator("#files .chip")).to_have_count(len(files))
        here.box.press_sequentially("@<")
        expect(here.page.get_by_role("option").first).to_be_visible()
        nothing_acts(here.page)
        here.box.press("Escape")
        for panel in ("files", "sessions", "memory", "schedules", "usage", "status", "devices"):
            place = here.go(panel)
            if panel == "memory":
                expect(place.locator("details").nth(len(NAMES) // 2)).to_be_attached()
            place.evaluate(READ)
            nothing_acts(here.page)
        assert here.ran() == []


def test_no_schedule_and_no_result_of_a_search_acts(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(ANN))
        texts = json.dumps(CORPUS[:20])
        made: list[int] = here.page.evaluate(
            f"""async () => {{
              const me = await (await fetch('/web/me')).json();
              const head = {{'Content-Type': 'application/json', 'X-CSRF-Token': me.csrf}};
              const answers = [];
              for (const message of {texts})
                answers.push((await fetch('/api/v1/schedules', {{method: 'POST', headers: head,
                  body: JSON.stringify({{id: String(Math.random()), message, every: '1d'}})}})).status);
              return answers;
            }}"""
        )
        assert set(made) <= {200, 201}, made
        expect(here.go("schedules").get_by_role("article")).to_have_count(len(made))
        nothing_acts(here.page)
        for panel in ("sessions", "memory"):
            place = here.go(panel)
            place.get_by_role("searchbox").fill("alert script onerror")
            place.get_by_role("button", name="Search").click()
            seen(place.locator(".card").first, "alert")
            nothing_acts(here.page)
        assert here.ran() == []

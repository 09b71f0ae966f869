"""Ways into the page, and what keeps others out."""

import pytest
from playwright.sync_api import Browser, expect

from tests.clients.web_ui.daemon import ANN, BOB, WebDaemon
from tests.clients.web_ui.device import device
from tests.clients.web_ui.seen import seen, seen_texts, unseen

pytestmark = pytest.mark.browser


@pytest.mark.promise("P-web-login")
def test_a_token_signs_in_and_signing_out_ends_it(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.sign_in_by_hand(daemon.token(ANN))
        seen(here.page.locator("#person"), "Ann", whole=True)
        here.page.reload()
        here.expect_ready()
        here.go("devices").get_by_role("article").filter(has_text="this browser").get_by_role("button").click()
        here.button("Really?").click()
        seen(here.page.get_by_text("You have signed out of this browser."))
        here.page.reload()
        expect(here.button("Show a sign-in code")).to_be_visible()


def test_a_wrong_token_is_refused_in_words(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.open()
        here.page.get_by_text("Sign in with a token").click()
        here.page.get_by_label("Access token").fill("goclaw_wrong")
        here.page.get_by_role("button", name="Sign in").click()
        seen(here.page.get_by_role("alert"), "not valid")


@pytest.mark.long
@pytest.mark.promise("P-web-login")
def test_a_link_signs_in_once(browser: Browser, daemon: WebDaemon) -> None:
    link = next(word for word in daemon.run("web", "--no-open", "--user", ANN).split() if "#link=" in word)
    place = link.partition("/#")[2]
    with device(browser, daemon) as here:
        here.open(f"#{place}")
        here.button("Sign in as Ann").click()
        here.expect_ready()
        assert "link" not in here.page.url
    with device(browser, daemon) as elsewhere:
        elsewhere.open(f"#{place}")
        seen(elsewhere.page.get_by_role("alert"), "link has expired")


@pytest.mark.long
@pytest.mark.promise("P-web-login")
def test_a_link_that_another_person_sent_takes_no_browser_over(browser: Browser, daemon: WebDaemon) -> None:
    link = next(word for word in daemon.run("web", "--no-open", "--user", ANN).split() if "#link=" in word)
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(BOB))
        here.page.goto("about:blank")
        here.open(f"#{link.partition('/#')[2]}")
        expect(here.button("Sign in as Ann")).to_be_visible()
        expect(here.page.locator("#app")).to_be_hidden()
        here.button("Stay signed in as Bob").click()
        here.expect_ready()
        seen(here.page.locator("#person"), "Bob", whole=True)
        here.page.reload()
        seen(here.page.locator("#person"), "Bob", whole=True)


@pytest.mark.promise("P-web-login")
def test_a_code_is_approved_by_a_person_elsewhere_and_by_no_other_page(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as known, device(browser, daemon, 360) as new:
        known.sign_in(daemon.token(BOB))
        new.open()
        new.button("Show a sign-in code").tap()
        expect(new.page.locator(".pairing code")).to_be_visible()
        (order,) = seen_texts(new.page.locator(".pairing code"))
        known.say(order)
        expect(known.page.locator("note-line").last).to_be_visible()
        expect(new.page.locator("#app")).to_be_hidden()
        daemon.run("send", order)
        new.expect_ready()
        unseen(new.page.locator("#person"), "Bob")


@pytest.mark.promise("P-web-devices")
def test_a_device_that_is_revoked_elsewhere_is_signed_out(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as first, device(browser, daemon) as second:
        first.sign_in(daemon.token(BOB))
        second.sign_in(daemon.token(BOB))
        name: str = second.page.evaluate("fetch('/web/me').then((answer) => answer.json()).then((me) => me.device)")
        first.go("devices").get_by_role("article").filter(has_text=name).get_by_role("button").click()
        first.button("Really?").click()
        seen(second.page.get_by_text("not signed in any more"))


@pytest.mark.promise("P-web-cookie")
def test_a_write_without_the_csrf_token_is_refused(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(ANN))
        body = """(head) => fetch('/api/v1/sessions/tui%3Aann/messages', {
            method: 'POST', body: '{"id": "x", "text": "hi"}',
            headers: {'Content-Type': 'application/json', ...head}}).then((answer) => answer.status)"""
        assert here.page.evaluate(body, {}) == 403
        assert here.page.evaluate(body, {"X-CSRF-Token": "0" * 64}) == 403
        expect(here.said).to_have_count(0)


@pytest.mark.promise("P-web-closed")
def test_no_page_may_frame_this_one(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.page.route("http://evil.test/", lambda route: route.fulfill(body=f"<iframe src='{daemon.url}/'></iframe>",
                                                                         content_type="text/html"))  # fmt: skip
        here.page.goto("http://evil.test/")
        expect(here.page.locator("iframe")).to_have_count(1)
        framed = here.page.frames[-1]
        assert framed.locator("#app").count() == 0, "the page was shown in a frame of another one"


@pytest.mark.promise("P-web-cookie")
def test_the_page_of_a_browser_that_nobody_signed_in_has_no_error_in_its_console(
    browser: Browser, daemon: WebDaemon
) -> None:
    with device(browser, daemon) as here:
        said: list[str] = []
        here.page.on("console", lambda message: said.append(message.text))
        here.open()
        expect(here.button("Show a sign-in code")).to_be_visible()
        assert said == []


def test_another_users_session_is_not_there(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(BOB))
        status = "(path) => fetch(path).then((answer) => answer.status)"
        assert here.page.evaluate(status, "/api/v1/sessions/telegram%3A123456/messages") == 404
        assert here.page.evaluate(status, "/api/v1/sessions/tui%3Aann/media/" + "0" * 64) == 404
        here.open("#/s/telegram%3A123456")
        seen(here.page.locator("#state"), "You have no access")
        unseen(here.messages, "secret")
        unseen(here.go("sessions"), "telegram")


@pytest.mark.promise("P-web-devices")
def test_nothing_of_a_person_is_left_for_the_next_one_in_the_same_tab(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(ANN))
        here.page.evaluate(
            """() => {
              sessionStorage.setItem("draft tui:bob", "a draft of Ann");
              sessionStorage.setItem("waiting tui:bob", JSON.stringify([["1", {text: "written by Ann", files: []}]]));
            }"""
        )
        here.page.context.request.post(f"{daemon.url}/web/login", data={"token": daemon.token(BOB)})
        here.page.reload()
        seen(here.page.locator("#person"), "Bob", whole=True)
        here.expect_ready()
        expect(here.box).to_have_value("")
        expect(here.said).to_have_count(0)
        assert here.page.evaluate("Object.keys(sessionStorage)") == ["person"]

"""The ways in for a browser: a token, a link, a code; and what none of them lets through."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from goclaw.common.auth.tokens import add_token, read_tokens, revoke_token
from goclaw.common.auth.users import User
from goclaw.common.auth.web_logins import LINK_SECONDS, REQUEST_SECONDS, LoginLimits
from goclaw.common.core.events import Actor
from goclaw.gateway.servers import http
from goclaw.gateway.servers.web.login import CODES, MAX_BODY, WAIT_SECONDS
from tests.gateway.servers.calling import ANN, BOB
from tests.gateway.servers.web.calling import SECRET, Browser, Heard, Pages, serving_pages, web_world
from tests.harness import OWNER, PATIENCE, Core, before_the_next_look
from tests.tables import table

pytestmark = pytest.mark.promise("P-web-login")
DAY = 24 * 3600.0


async def by_ann(core: Core, command: str) -> str:
    """The answer to a command of Ann's in her chat."""
    return await core.command(command, actor=Actor(ANN.key, "memory"))


async def test_a_token_lets_a_browser_in_as_its_user_and_nothing_more(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = pages.browser()
        assert (await browser.get("/web/me")).status == 204
        me = await browser.login(token=pages.secret())
        assert (me["person"], me["name"], me["session"], me["admin"]) == (ANN.key, "Ann", ANN.key, False)
        assert (await browser.get("/web/me")).said == me
        assert (await browser.get("/api/v1/sessions")).status == 200
        assert (await browser.get("/api/v1/users")).status == 403
        assert (await browser.get("/api/v1/sessions/memory%3Athere")).status in (403, 404)
        stored = read_tokens(world.config.tokens_path)[me["device"]]
        assert (stored.user, stored.device, stored.owner) == (ANN.key, "Firefox on Linux", False)
        assert SECRET.search(world.config.tokens_path.read_text()) is None
        assert [entry.object for entry in pages.noted("web.login")] == [me["device"]]


async def test_a_login_makes_a_new_secret_and_ends_the_one_from_before(tmp_path: Path) -> None:
    # Session fixation: what an attacker planted in a browser is worth nothing after its login.
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        attacker = await pages.entered(BOB.key)
        victim = pages.browser()
        victim.cookies = dict(attacker.cookies)
        await victim.login(token=pages.secret(ANN.key))
        assert victim.cookies != attacker.cookies
        assert (await attacker.get("/web/me")).status == 401
        assert (await victim.get("/web/me")).said["person"] == ANN.key
        invented = pages.browser()
        invented.cookies = {f"goclaw_{pages.port}": "goclaw_" + "a" * 43}
        await invented.login(token=pages.secret(ANN.key))
        assert "a" * 43 not in str(invented.cookies)


async def test_a_token_that_ends_or_is_revoked_takes_its_devices_along(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = await pages.entered()
        await pages.revoke()
        assert (await browser.get("/api/v1/sessions")).status == 401
        assert read_tokens(world.config.tokens_path) == {}, "they do not stay in the list"
        pages.secrets.clear()
        browser = await pages.entered()
        tokens = world.config.tokens_path
        tokens.write_text(tokens.read_text().replace(f'"memory-here-{pages.port}"', '"renamed"'))
        await pages.tokens.refresh()
        assert (await browser.get("/web/me")).status == 200
        revoke_token(tokens, "renamed")
        await pages.tokens.refresh()
        assert (await browser.get("/web/me")).status == 401


async def test_a_device_ends_after_thirty_days_and_not_later_than_its_token(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        now = world.clock.now()
        short = add_token(world.config.tokens_path, "short", ANN.key, now, now + DAY)
        brief, long = pages.browser(), pages.browser()
        assert (await brief.login(token=short))["until"] == now + DAY
        heard = await long.post("/web/login", {"token": pages.secret()})
        assert heard.said["until"] == now + 30 * DAY
        assert heard.cookies[f"goclaw_{pages.port}"]["max-age"] == str(30 * 24 * 3600)
        world.clock.advance(DAY + 1)
        assert (await brief.get("/web/me")).status == 401
        assert (await long.get("/web/me")).status == 200
        world.clock.advance(29 * DAY)
        assert (await long.get("/web/me")).status == 401


async def test_a_user_who_is_taken_out_is_out_and_comes_in_by_no_way(tmp_path: Path) -> None:
    world = web_world(tmp_path, users=(ANN,))
    async with world.running() as core, serving_pages(world, core) as pages:
        assert (await pages.browser().post("/web/login", {"token": pages.secret(BOB.key)})).status == 403
        link = await pages.logins.link(BOB.key, owner=False)
        assert (await pages.browser().post("/web/login", {"link": link})).status == 403
        assert [name for name in read_tokens(world.config.tokens_path) if name.startswith("web-")] == []


async def test_tokens_and_cookies_are_no_substitutes_for_each_other(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = await pages.entered()
        (name, secret), token = next(iter(browser.cookies.items())), pages.secret()
        bare = pages.browser()
        assert (await bare.get("/api/v1/sessions", Authorization=f"Bearer {secret}")).status == 401
        assert (await bare.post("/web/login", {"token": secret})).status == 401
        assert (await bare.get("/api/v1/sessions", Cookie=f"{name}={token}")).status == 401
        assert (await bare.get("/api/v1/sessions", Authorization=f"Bearer {token}")).status == 200


async def test_wrong_tokens_and_links_are_counted_and_a_right_one_comes_in_all_the_same(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = pages.browser()
        tries = [await browser.post("/web/login", body) for body in ({"token": "goclaw_no"}, {"link": "no"}) * 6]
        assert [heard.status for heard in tries] == [401] * 10 + [429] * 2
        assert int(tries[-1].headers["Retry-After"]) > 0 and tries[-1].problem
        assert (await pages.browser().post("/web/login", {"token": pages.secret()})).status == 200
        for _ in range(20):
            assert (await pages.browser().get("/web/me")).status == 204, "opening the page is no failed try"
        assert (await pages.browser().post("/web/login", {"link": "x"})).status == 429
        assert [entry.allowed for entry in pages.noted("client.attach")] == [False, False]


async def test_a_link_lets_in_once_and_within_a_minute(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        link = await pages.logins.link(ANN.key, owner=False)
        first = pages.browser()
        assert (await first.login(link=link))["person"] == ANN.key
        late = await pages.browser().post("/web/login", {"link": link})
        assert late.status == 401 and "used" in late.problem
        link = await pages.logins.link(ANN.key, owner=False)
        world.clock.advance(LINK_SECONDS)
        assert (await pages.browser().post("/web/login", {"link": link})).status == 401
        links = [await pages.logins.link(ANN.key, owner=False)] * 2
        both = await asyncio.gather(*(pages.browser().post("/web/login", {"link": each}) for each in links))
        assert sorted(heard.status for heard in both) == [200, 401]


async def test_a_link_says_whose_it_is_before_it_lets_in_and_is_not_used_up_by_that(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        link = await pages.logins.link(ANN.key, owner=False)
        browser = pages.browser()
        for _ in range(2):
            shown = await browser.post("/web/login/link", {"link": link})
            assert shown.said == {"person": ANN.key, "name": "Ann", "owner": False}
        assert not browser.cookies
        assert (await browser.post("/web/login/link", {"link": link}, Sec_Fetch_Site="cross-site")).status == 403
        await browser.login(link=link)
        tries = [await browser.post("/web/login/link", {"link": link}) for _ in range(11)]
        assert [heard.status for heard in tries] == [401] * 10 + [429]


async def test_an_owner_without_a_name_is_shown_in_words(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        for owner, name in ((True, "the owner of this computer"), (False, "root")):
            link = await pages.logins.link("tui:root", owner=owner)
            shown = await pages.browser().post("/web/login/link", {"link": link})
            assert shown.said == {"person": "tui:root", "name": name, "owner": owner}


async def test_only_the_owner_s_link_makes_an_owner_and_the_entry_of_a_listed_key_counts(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        owner = pages.browser()
        me = await owner.login(link=await pages.logins.link("tui:me", owner=True))
        assert (me["person"], me["admin"]) == ("tui:me", True)
        assert (await owner.get("/api/v1/users")).status == 200
        listed = pages.browser()
        assert (await listed.login(link=await pages.logins.link(ANN.key, owner=True)))["admin"] is False
        assert (await listed.get("/api/v1/users")).status == 403
        other = await pages.browser().post("/web/login", {"link": await pages.logins.link("tui:me", owner=False)})
        assert other.status == 403


async def asked(browser: Browser) -> tuple[str, str]:
    heard = await browser.post("/web/login/code")
    assert heard.status == 200 and heard.said["seconds"] == REQUEST_SECONDS
    assert heard.said["code"] not in heard.said["secret"] and SECRET.fullmatch(heard.said["secret"])
    return heard.said["code"], heard.said["secret"]


async def waiting(pages: Pages, browser: Browser, secret: str) -> "asyncio.Task[Heard]":
    """A page that waits, since it does."""
    task = asyncio.create_task(browser.post("/web/login/wait", {"secret": secret}))
    sleepers = pages.world.clock.sleepers
    async with asyncio.timeout(PATIENCE):
        while pages.world.clock.sleepers <= sleepers and not task.done():
            await before_the_next_look()
    return task


async def test_a_code_that_a_person_approves_lets_the_page_in_as_that_person(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = pages.browser()
        code, secret = await asked(browser)
        task = await waiting(pages, browser, secret)
        said = await by_ann(core, f"/approve {code.lower()}")
        assert f"Signed in as {ANN.key}: Firefox on Linux at 127.0.0.1." in said
        assert (await task).said["person"] == ANN.key
        assert (await browser.get("/api/v1/sessions")).status == 200
        assert (await pages.browser().post("/web/login/wait", {"secret": secret})).status == 410, "once"
        assert "No page shows this code" in await by_ann(core, f"/approve {code}")
        assert [entry.actor.key for entry in pages.noted("web.approve")] == [ANN.key, ANN.key]
        assert [entry.allowed for entry in pages.noted("web.approve")] == [True, False]


async def test_a_page_that_is_not_let_in_waits_is_denied_or_too_late(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = pages.browser()
        code, secret = await asked(browser)
        task = await waiting(pages, browser, secret)
        newer = asyncio.create_task(browser.post("/web/login/wait", {"secret": secret}))
        assert ((await task).status, (await task).said) == (202, {}), "the newer wait gets the answer"
        world.clock.advance(WAIT_SECONDS)
        assert (await newer).status == 202
        assert await by_ann(core, f"/deny {code}") == "Refused: Firefox on Linux at 127.0.0.1."
        assert (await browser.post("/web/login/wait", {"secret": secret})).status == 410
        code, secret = await asked(browser)
        world.clock.advance(REQUEST_SECONDS)
        assert "No page shows this code" in await by_ann(core, f"/approve {code}")
        assert (await browser.post("/web/login/wait", {"secret": secret})).status == 410
        assert browser.cookies == {}
        assert (await browser.post("/web/login/wait", {"secret": "goclaw_" + "x" * 43})).status == 410


async def test_wrong_codes_are_few_and_the_right_one_is_not_heard_after_them(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        code, _ = await asked(pages.browser())
        for _ in range(5):
            assert "No page shows this code" in await by_ann(core, "/approve 2222-2222")
        for order in ("approve", "deny"):
            assert "Too many wrong codes" in await by_ann(core, f"/{order} {code}")
        said = await core.command(f"/approve {code}", actor=Actor(BOB.key, "memory"), chat="there")
        assert said.startswith("Signed in as memory:there"), "the limit is one person's"


async def test_codes_of_many_pages_are_bounded_by_caller_and_in_all(tmp_path: Path) -> None:
    world = web_world(tmp_path, limits=LoginLimits(per_address=2, in_all=3), http={"trusted_proxies": ["127.0.0.1"]})
    async with world.running() as core, serving_pages(world, core) as pages:
        first, _ = await asked(pages.browser(X_Forwarded_For="192.0.2.1"))
        world.clock.advance(1)
        second, _ = await asked(pages.browser(X_Forwarded_For="192.0.2.1"))
        await asked(pages.browser(X_Forwarded_For="192.0.2.1"))
        assert "No page" in await by_ann(core, f"/approve {first}"), "a further page of a caller takes its place"
        await asked(pages.browser(X_Forwarded_For="192.0.2.2"))
        refused = await pages.browser(X_Forwarded_For="192.0.2.3").post("/web/login/code")
        assert refused.status == 429 and refused.headers["Retry-After"] and refused.problem
        assert "at 192.0.2.1." in await by_ann(core, f"/approve {second}"), "the approver is told where the page is"


async def test_a_page_that_asks_all_the_time_is_made_to_wait_and_the_owner_is_not_flooded(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        heard = [await pages.browser().post("/web/login/code") for _ in range(CODES.failures + 1)]
        assert [each.status for each in heard] == [200] * CODES.failures + [429]
        assert int(heard[-1].headers["Retry-After"]) > 0 and "a minute" in heard[-1].problem
        assert len(pages.told) == pages.logins.limits.told_per_minute < CODES.failures
        world.clock.advance(61)
        assert (await pages.browser().post("/web/login/code")).status == 200
        assert [(each.browser, each.address) for each in pages.told[-1:]] == [("Firefox on Linux", "127.0.0.1")]
        assert len(pages.told) == pages.logins.limits.told_per_minute + 1


async def test_a_page_that_waits_does_not_hold_up_the_end_of_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "SHUTDOWN_SECONDS", 2 * PATIENCE)  # for a request that is held up
    world = web_world(tmp_path)
    async with world.running() as core, AsyncExitStack() as stack:
        pages = await stack.enter_async_context(serving_pages(world, core))
        browser = pages.browser()
        _, secret = await asked(browser)
        task = await waiting(pages, browser, secret)
        async with asyncio.timeout(PATIENCE):
            await stack.aclose()
        assert (await task).status == 202


async def test_the_owner_s_approval_makes_an_owner_of_a_page_on_this_machine_alone(tmp_path: Path) -> None:
    proxied = {"trusted_proxies": ["127.0.0.1"], "public_url": "https://claw.example.org"}
    world = web_world(tmp_path, http=proxied)
    async with world.running() as core, serving_pages(world, core) as pages:
        for elsewhere in (
            pages.browser("claw.example.org", X_Forwarded_For="192.0.2.1"),
            pages.browser(X_Forwarded_For="127.0.0.1"),
            pages.browser("claw.example.org"),
        ):
            code, secret = await asked(elsewhere)
            assert "not in users.json" in await core.command(f"/approve {code}", actor=OWNER, session="tui:me")
            task = await waiting(pages, elsewhere, secret)
            world.clock.advance(WAIT_SECONDS)
            assert (await task).status == 202
        here = pages.browser()
        code, secret = await asked(here)
        said = await core.command(f"/approve {code}", actor=OWNER, session="tui:me")
        assert said.startswith("Signed in as tui:me: Firefox on Linux at 127.0.0.1.")
        assert (await here.post("/web/login/wait", {"secret": secret})).said["admin"] is True


async def test_behind_a_proxy_that_is_not_trusted_no_page_counts_as_this_machine(tmp_path: Path) -> None:
    # A proxy that sends its own Host and no forwarding headers makes strangers look like the owner's browser.
    world = web_world(tmp_path, http={"public_url": "https://claw.example.org"})
    async with world.running() as core, serving_pages(world, core) as pages:
        code, _ = await asked(pages.browser())
        said = await core.command(f"/approve {code}", actor=OWNER, session="tui:me")
        assert "not in users.json" in said and pages.noted("web.approve") == []


@table(
    "actor, session",
    [
        (Actor(ANN.key, "http"), ANN.key),
        (Actor(ANN.key, "web"), ANN.key),
        (Actor("web:ann", "web"), "web:ann"),
        (Actor("http:ann", "http"), "http:ann"),
        (Actor("tui:me", "web", owner=True), "tui:me"),
        (Actor(ANN.key, "memory", behalf=(Actor(ANN.key, "memory"),)), ANN.key),
    ],
)
async def test_what_came_in_by_a_token_lets_in_no_page(tmp_path: Path, actor: Actor, session: str) -> None:
    others = [User(key, "Ann", roles=frozenset({"user"})) for key in ("web:ann", "http:ann")]
    world = web_world(tmp_path, users=(ANN, BOB, *others))
    async with world.running() as core, serving_pages(world, core) as pages:
        code, _ = await asked(pages.browser())
        said = await core.command(f"/approve {code}", actor=actor, session=session)
        assert said.startswith("You can approve or refuse pages only in a chat")
        assert pages.noted("web.approve") == []


async def test_a_person_without_rights_is_asked_nothing_and_a_group_is_told_to_write_elsewhere(tmp_path: Path) -> None:
    bare = User("memory:bare", "Bare", roles=frozenset({"mute"}))
    world = web_world(tmp_path, users=(ANN, bare), roles={"mute": {"commands": []}})
    async with world.running() as core, serving_pages(world, core) as pages:
        code, _ = await asked(pages.browser())
        for chat in ("bare", "stranger"):
            actor = Actor(f"memory:{chat}", "memory")
            assert "Firefox" not in await core.command(f"/approve {code}", actor=actor, chat=chat)
        group = await core.command(f"/approve {code}", actor=Actor(ANN.key, "memory"), session="telegram:-5")
        assert "Firefox" not in group
        assert pages.noted("web.approve") == []


@table(
    "headers, status",
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": ""}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": ""}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Host": "evil.example"}, 421),
    ],
)
async def test_no_other_page_logs_a_browser_in(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    # Login CSRF: the victim would work in the attacker's sessions without knowing it.
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        for path, body in (("/web/login", {"token": pages.secret()}), ("/web/login/code", {})):
            browser = pages.browser()
            heard = await browser.post(path, body, **headers)
            assert heard.status == status and heard.problem, path
            assert browser.cookies == {}


async def test_a_body_that_is_too_large_or_is_none_is_refused_without_an_echo(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = pages.browser()
        assert (await browser.post("/web/login", {"token": "x" * MAX_BODY})).status == 413
        for body in (
            b"",
            b"[]",
            b"{",
            b'{"token": 1}',
            b'{"token": "goclaw_x", "link": "goclaw_x"}',
            b'{"user": "tui:me"}',
            b'{"token": "a b"}',
            b'{"token": "' + b"x" * 300 + b'"}',
            b"[" * 3_000,
        ):
            heard = await browser.post("/web/login", body)
            assert heard.status == 400 and "goclaw_x" not in heard.problem and "xxx" not in heard.problem, body
        assert (await browser.post("/web/login/wait", b"{}")).status == 400
        assert (await browser.post("/web/login/code", {"code": "AAAA-AAAA"})).status == 400


async def test_where_others_could_read_along_no_secret_is_given_or_taken(tmp_path: Path) -> None:
    world = web_world(tmp_path, http={"hosts": ["claw.lan"], "public_url": "https://claw.example.org"})
    async with world.running() as core, serving_pages(world, core) as pages:
        plain = pages.browser("claw.lan")
        for path, body in (("/web/login", {"token": pages.secret()}), ("/web/login/code", {})):
            heard = await plain.post(path, body)
            assert heard.status == 403 and "https" in heard.problem
        forged = pages.browser("claw.lan", X_Forwarded_Proto="https")
        assert (await forged.post("/web/login/code")).status == 403, "no trusted proxy says so"


async def test_no_secret_is_in_the_log_or_the_audit_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = pages.browser()
        code, secret = await asked(browser)
        await by_ann(core, f"/approve {code}")
        await browser.post("/web/login/wait", {"secret": secret})
        link = await pages.logins.link(ANN.key, owner=False)
        await browser.login(link=link)
        await browser.get(f"/?token={pages.secret()}")
        await browser.get(f"/web/{pages.secret()}")
        await browser.post("/web/login", {"link": pages.secret()})
        told = caplog.text + repr(pages.audited) + repr(world.audited)
        for hidden in (secret, link, pages.secret(), *browser.cookies.values(), browser.csrf):
            assert hidden not in told
        assert "Firefox on Linux at 127.0.0.1" in told and "web.login" in told


async def test_a_user_with_a_token_does_not_log_in_all_the_time(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        statuses = [(await pages.browser().post("/web/login", {"token": pages.secret()})).status for _ in range(21)]
        assert statuses == [200] * 20 + [429]
        assert (await pages.browser().post("/web/login", {"token": pages.secret(BOB.key)})).status == 200
        world.clock.advance(61)
        assert (await pages.browser().post("/web/login", {"token": pages.secret()})).status == 200


async def test_logging_out_ends_the_device_and_takes_the_cookie(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = await pages.entered()
        stolen = dict(browser.cookies)
        heard = await browser.post("/web/logout")
        assert heard.status == 204 and browser.cookies == {}
        browser.cookies = stolen
        assert (await browser.get("/web/me")).status == 401
        assert [entry.result for entry in pages.noted("web.logout")] == ["ok"]

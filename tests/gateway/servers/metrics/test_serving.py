"""Who may read the metrics, and that nothing private is in them."""

from pathlib import Path

import pytest

from goclaw.common.auth.tokens import revoke_token
from goclaw.llm.base import AskedModel
from tests.gateway.servers.metrics.calling import ANN, ROOT, MetricsWorld, site
from tests.harness import Answer

pytestmark = pytest.mark.promise("P-metrics")


async def test_a_program_of_this_machine_reads_them_without_a_token(tmp_path: Path) -> None:
    world = MetricsWorld(tmp_path)
    async with world.running() as core, site(world, core) as page:
        status, text, headers = await page.ask()
        found = await page.scrape()
    assert status == 200 and "# TYPE goclaw_turns_total counter" in text
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert found["goclaw_loop_late_seconds", ""] == 0.0125 and found["goclaw_unhandled_errors_total", ""] == 1
    assert found["goclaw_memory_bytes", ""] > 1_000_000 and found["goclaw_disk_free_bytes", ""] > 0


@pytest.mark.parametrize(
    "forwarded",
    [
        {"X_Forwarded_For": "127.0.0.1"},
        {"X_Forwarded_For": "203.0.113.9"},
        {"Forwarded": "for=127.0.0.1"},
        {"X_Real_IP": "127.0.0.1"},
        {"Via": "1.1 proxy"},
        {"Host": "claw.example.org"},
        {"Authorization": ""},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic cm9vdDo="},
    ],
)
@pytest.mark.parametrize("proxies", [(), ("127.0.0.1",)])
async def test_who_comes_over_a_proxy_or_shows_a_wrong_token_is_not_of_this_machine(
    tmp_path: Path, forwarded: dict[str, str], proxies: tuple[str, ...]
) -> None:
    world = MetricsWorld(tmp_path, hosts=("claw.example.org",), trusted_proxies=proxies)
    async with world.running() as core, site(world, core) as page:
        status, text, headers = await page.ask(**forwarded)
        assert (status, text, headers["WWW-Authenticate"]) == (401, "", "Bearer")
        root = await page.token("prometheus", ROOT)
        assert (await page.ask(**{**forwarded, "Authorization": f"Bearer {root}"}))[0] == 200


async def test_where_others_can_call_a_token_of_an_admin_is_wanted(tmp_path: Path) -> None:
    world = MetricsWorld(tmp_path, host="0.0.0.0")  # noqa: S104 - the test is about that
    async with world.running() as core, site(world, core) as page:
        assert (await page.ask())[0] == 401
        ann, root = await page.token("ann", ANN), await page.token("prometheus", ROOT)
        assert (await page.ask(Authorization=f"Bearer {ann}"))[:2] == (403, "")
        assert page.audited[-1].rule == "for admins" and not page.audited[-1].allowed
        assert (await page.ask(Authorization=f"Bearer {root}"))[0] == 200
        revoke_token(world.config.tokens_path, "prometheus")
        await page.tokens.refresh()
        assert (await page.ask(Authorization=f"Bearer {root}"))[0] == 401, "replayed after it was revoked"


async def test_a_token_in_the_address_is_refused_everywhere(tmp_path: Path) -> None:
    world = MetricsWorld(tmp_path)
    async with world.running() as core, site(world, core) as page:
        root = await page.token("prometheus", ROOT)
        assert (await page.ask(f"/metrics?token={root}"))[0] == 400
        assert (await page.ask(f"/metrics?access_token={root}", Authorization=f"Bearer {root}"))[0] == 400


async def test_foreign_pages_and_names_and_other_methods_are_refused(tmp_path: Path) -> None:
    world = MetricsWorld(tmp_path)
    async with world.running() as core, site(world, core) as page:
        assert (await page.ask(Origin="https://evil.example"))[0] == 403
        assert (await page.ask(Host="evil.example"))[0] == 421
        assert (await page.ask(Host="10.0.0.1"))[0] == 421
        assert (await page.ask("/metrics/"))[0] == (await page.ask("/metrics/..%2fmetrics"))[0] == 404
        for method in ("POST", "PUT", "DELETE"):
            assert await page.send(method) == 405


async def test_many_wrong_tokens_are_told_to_wait_and_a_right_one_is_not(tmp_path: Path) -> None:
    world = MetricsWorld(tmp_path)
    async with world.running() as core, site(world, core) as page:
        statuses = [(await page.ask(Authorization="Bearer wrong"))[0] for _ in range(12)]
        assert statuses == [401] * 10 + [429] * 2
        root = await page.token("prometheus", ROOT)
        assert (await page.ask(Authorization=f"Bearer {root}"))[0] == 200


async def test_no_user_session_chat_or_word_is_in_them(tmp_path: Path) -> None:
    world = MetricsWorld(tmp_path, Answer("the answer is plum"))
    async with world.running() as core, site(world, core) as page:
        await core.say("a question about cherries")
        await core.settled()
        _, text, _ = await page.ask()
    assert 'goclaw_turns_total{outcome="answered"} 1.0' in text
    values = "".join(line for line in text.splitlines() if not line.startswith("#"))
    assert not [word for word in ("here", "Ann", "cherries", "plum", "tui:root", str(tmp_path)) if word in values]


async def test_hostile_names_neither_break_the_text_nor_grow_it(tmp_path: Path) -> None:
    world = MetricsWorld(tmp_path)
    async with world.running() as core, site(world, core) as page:
        (watch,) = world.watches
        for number in range(1_000):
            asked = AskedModel(f'a:"}} 1\ngoclaw_turns_total{{outcome="x"}} {number}', 1)
            watch.on_request(asked)
            watch.on_end(asked)
        _, text, _ = await page.ask()
        assert ("goclaw_turns_total", "outcome=x") not in await page.scrape()
    assert len(text) < 200_000

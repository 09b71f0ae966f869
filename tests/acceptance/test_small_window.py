"""A local model in whose window no conversation fits: the daemon, its commands and its answers say why. One in whose
window one does is loaded for one window by all of them."""

from collections.abc import AsyncIterator

import pytest

from tests.acceptance.daemon import Installation
from tests.acceptance.waiting import eventually
from tests.llm.fake_provider import FakeProvider, fake_provider, lines, refusal
from tests.llm.wires import OLLAMA

pytestmark = [pytest.mark.slow, pytest.mark.promise("P-context-fits")]

TINY = "ollama:tiny:1b"
SHOWN = lines({"capabilities": ["completion", "tools"], "model_info": {"m.context_length": 1_280}})
TOO_SMALL = "The window of 1,280 tokens is too small for a conversation: prompt "
HELPS = "Give the model a larger window (`providers.ollama.max_context`"


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        server.routes = {"/api/show": SHOWN, "/api/tags": lines({"models": [{"name": "tiny:1b", "size": 1}]})}
        server.will(OLLAMA.answer())
        yield server


def installed(bare: Installation, fake: FakeProvider) -> None:
    bare.environment = {"OLLAMA_HOST": fake.url}
    bare.config = {"models": {"agent": TINY}}
    bare.write_config()


async def test_start_status_first_answer_and_doctor_say_what_uses_it(bare: Installation, fake: FakeProvider) -> None:
    installed(bare, fake)
    await bare.start()
    line = await eventually(lambda: next((each for each in bare.output.splitlines() if TOO_SMALL in each), None))
    assert HELPS in line and TINY in line
    status = (await bare.run("status")).out
    assert f"Window: {TOO_SMALL}" in status and " / 1,280 (" in status and "(2." not in status
    answered = await bare.run("send", "hello")
    assert (answered.code, answered.out) == (0, "Hello\n") and TOO_SMALL in answered.err and HELPS in answered.err
    refused = await bare.run("send", "what is there to say? " * 60)
    assert refused.code == 1 and TOO_SMALL in refused.out and HELPS in refused.out
    doctor = await bare.run("doctor")
    assert doctor.code == 1 and f"✗ window: {TOO_SMALL}" in doctor.out and HELPS in doctor.out


async def test_setup_says_it_of_the_model_that_was_chosen(bare: Installation, fake: FakeProvider) -> None:
    bare.environment = {"OLLAMA_HOST": fake.url}
    done = await bare.run("setup", "--no-input", "--model", TINY)
    assert done.code == 0 and f"! {TOO_SMALL}" in done.out and HELPS in done.out


async def test_status_knows_the_window_of_an_ollama_that_came_after_the_daemon(
    bare: Installation, fake: FakeProvider
) -> None:
    installed(bare, fake)
    fake.routes["/api/show"] = refusal(500, {"error": "not yet"})
    await bare.start()
    assert " / 32,768 (" in (await bare.run("status")).out
    fake.routes["/api/show"] = SHOWN
    assert " / 1,280 (" in (await bare.run("status")).out
    assert fake.asked == [], "before the first request"


@pytest.mark.long
async def test_doctor_and_setup_ask_with_the_window_of_the_daemon(bare: Installation, fake: FakeProvider) -> None:
    shown = {"capabilities": ["completion", "tools"], "model_info": {"m.context_length": 40_960}}
    fake.routes["/api/show"] = lines(shown)
    setup = ("setup", "--no-input", "--model", TINY)
    bare.environment = {"OLLAMA_HOST": fake.url}
    assert (await bare.run(*setup)).code == 0
    installed(bare, fake)
    assert (await bare.run("doctor")).code == 0
    await bare.start()
    assert (await bare.run("send", "hello")).code == 0
    fake.routes["/api/ps"] = lines({"models": [{"name": "tiny:1b", "context_length": 16_384}]})
    assert (await bare.run("doctor")).code == 0 and (await bare.run(*setup)).code == 0
    assert [received.body["options"]["num_ctx"] for received in fake.asked] == [16_384] * 5

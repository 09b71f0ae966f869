"""What every wire must do when the server does not do its part."""

import asyncio
from dataclasses import replace

import pytest

from goclaw.errors import ModelErrorKind
from goclaw.llm import http_streams
from goclaw.llm.base import ModelPorts, Stop, TextDelta
from tests.llm.asking import TOOLS, ask, saying
from tests.llm.fake_provider import FakeProvider, Reply, fake_provider, refusal
from tests.llm.wires import KEY, Wire
from tests.tables import table

KINDS = ModelErrorKind


async def test_a_whole_answer_is_streamed_and_then_told_once(fake: FakeProvider, ports: ModelPorts, wire: Wire) -> None:
    fake.will(wire.answer())
    heard = await ask(wire.open(fake.url, ports), saying("hi"))
    # In one piece or two, as it arrived.
    assert "".join(event.text for event in heard.events if isinstance(event, TextDelta)) == "Hello"
    assert heard.finished.message.text == "Hello"
    assert heard.finished.stop is Stop.END
    assert (heard.finished.usage.input, heard.finished.usage.output) == (3, 2)
    assert heard.finished.spec == wire.spec


@pytest.mark.promise("P-no-silent-cut")
@pytest.mark.parametrize("cut", ["broken frame", "end without a reason", "lost connection"])
async def test_half_an_answer_is_never_taken_for_a_whole_one(
    fake: FakeProvider, ports: ModelPorts, wire: Wire, cut: str
) -> None:
    replies = {
        "broken frame": wire.shape(*wire.opening, wire.broken, *wire.more, *wire.ending),
        "end without a reason": wire.shape(*wire.opening, *wire.more),
        "lost connection": wire.shape(*wire.opening, end="cut"),
    }
    fake.will(replies[cut])
    heard = await ask(wire.open(fake.url, ports), saying("hi"))
    assert heard.text.startswith("Hel")
    assert (heard.failed.kind, heard.failed.partial) == (KINDS.TRUNCATED, True)
    assert heard.failed.spec == wire.spec
    assert str(heard.failed).startswith(f"{wire.spec}: the connection broke")


async def test_an_error_in_the_middle_of_a_stream_has_its_kind(
    fake: FakeProvider, ports: ModelPorts, wire: Wire
) -> None:
    fake.will(wire.shape(*wire.opening, wire.error))
    heard = await ask(wire.open(fake.url, ports), saying("hi"))
    assert (heard.failed.kind, heard.failed.partial) == (KINDS.OVERLOADED, True)


async def test_json_of_another_shape_is_a_broken_answer_and_no_crash(
    fake: FakeProvider, ports: ModelPorts, wire: Wire
) -> None:
    for strange in ([1, 2], "text", {"type": "content_block_delta", "choices": [3], "message": 4}):
        fake.will(wire.shape(*wire.opening, strange))
        heard = await ask(wire.open(fake.url, ports), saying("hi"))
        assert heard.failed.kind is KINDS.TRUNCATED


async def test_an_empty_body_is_a_broken_answer(fake: FakeProvider, ports: ModelPorts, wire: Wire) -> None:
    fake.will(wire.shape())
    heard = await ask(wire.open(fake.url, ports), saying("hi"))
    assert (heard.failed.kind, heard.failed.partial) == (KINDS.TRUNCATED, False)


SOON = 0.3
"""Seconds for an answer that never begins, or never goes on."""


async def test_a_server_that_never_begins_its_answer_is_given_up(
    fake: FakeProvider, ports: ModelPorts, wire: Wire
) -> None:
    fake.will(wire.shape(end="hang"))
    heard = await ask(wire.open(fake.url, replace(ports, first_byte=SOON)), saying("hi"))
    assert (heard.failed.kind, heard.failed.partial) == (KINDS.TIMEOUT, False)
    assert "silent" in str(heard.failed)


async def test_a_server_that_falls_silent_in_its_answer_is_given_up_sooner(
    fake: FakeProvider, ports: ModelPorts, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ports.first_byte == 300 and http_streams.BETWEEN_BYTES == 60
    monkeypatch.setattr(http_streams, "BETWEEN_BYTES", SOON)
    fake.will(wire.shape(*wire.opening, end="hang"), wire.answer())
    model = wire.open(fake.url, ports)
    heard = await ask(model, saying("hi"))
    assert (heard.text, heard.failed.kind, heard.failed.partial) == ("Hel", KINDS.TIMEOUT, True)
    assert (await ask(model, saying("hi"))).text == "Hello", "the next one has its own time"


@pytest.mark.promise("P-stop")
@pytest.mark.parametrize("how", ["cancelled", "left"])
async def test_stopping_closes_the_connection_to_the_model_at_once(
    fake: FakeProvider, ports: ModelPorts, wire: Wire, how: str
) -> None:
    fake.will(wire.shape(*wire.opening, end="hang"))
    model = wire.open(fake.url, ports)
    async with asyncio.timeout(10):
        if how == "left":
            async with model.stream(saying("hi")) as events:
                await anext(events)
        else:
            asking = asyncio.create_task(ask(model, saying("hi")))
            await fake.streaming.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        await fake.left.wait()


@table(
    "status, kind",
    [
        (400, KINDS.REJECTED),
        (401, KINDS.AUTH),
        (402, KINDS.AUTH),
        (403, KINDS.AUTH),
        (404, KINDS.NOT_FOUND),
        (408, KINDS.TIMEOUT),
        (413, KINDS.OVERFLOW),
        (429, KINDS.RATE),
        (500, KINDS.SERVER),
        (502, KINDS.SERVER),
        (503, KINDS.OVERLOADED),
        (529, KINDS.OVERLOADED),
    ],
)
async def test_every_refusal_has_its_kind(
    fake: FakeProvider, ports: ModelPorts, wire: Wire, status: int, kind: ModelErrorKind
) -> None:
    fake.will(refusal(status, wire.error_body("these words"), retry_after="7"))
    heard = await ask(wire.open(fake.url, ports), saying("hi"))
    assert heard.failed.kind is kind
    assert heard.failed.partial is False
    assert str(heard.failed).startswith(f"{wire.spec}: ")
    if kind is KINDS.NOT_FOUND:
        assert "models.agent" in str(heard.failed) or "ollama pull qwen3:8b" in str(heard.failed)
    else:
        assert ("these words" in str(heard.failed)) is (kind is not KINDS.AUTH)


@pytest.mark.promise("P-secrets-masked")
@pytest.mark.parametrize("status", [400, 401, 429, 500])
async def test_no_error_shows_the_key(fake: FakeProvider, ports: ModelPorts, wire: Wire, status: int) -> None:
    fake.will(refusal(status, wire.error_body(f"Incorrect API key provided: {KEY}; header Bearer {KEY}")))
    heard = await ask(wire.open(fake.url, ports), saying("hi"))
    seen = f"{heard.failed} {heard.failed!r} {heard.failed.__cause__}"
    if wire.name != "ollama":  # its library's own error, the cause, repeats what the server said
        assert KEY not in seen
    assert KEY not in f"{heard.failed} {heard.failed!r}"
    assert any(KEY in value for value in fake.asked[-1].headers.values())


async def test_nobody_at_the_address_is_a_network_error_with_advice(ports: ModelPorts, wire: Wire) -> None:
    heard = await ask(wire.open("http://127.0.0.1:9", ports), saying("hi"))
    assert heard.failed.kind is KINDS.NETWORK
    assert "base_url" in str(heard.failed)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_takes_key_and_conversation_to_another_server(
    fake: FakeProvider, ports: ModelPorts, wire: Wire, status: int
) -> None:
    async with fake_provider() as other:
        other.will(wire.answer())
        fake.will(Reply([b"moved"], status, "text/plain", {"location": f"{other.url}/v1/messages"}))
        heard = await ask(wire.open(fake.url, ports), saying("hi"))
        assert other.received == []
    assert heard.failed.kind is KINDS.NOT_FOUND and "base_url" in str(heard.failed)


@pytest.mark.parametrize("count", ["many", -5, 1.5e300, [], {"a": 1}, True])
async def test_nonsense_for_usage_costs_no_answer(
    fake: FakeProvider, ports: ModelPorts, wire: Wire, count: object
) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count, "input_tokens": count, "output_tokens": count}
    strange = {"usage": usage, "prompt_eval_count": count, "eval_count": count}
    last = [frame | strange if isinstance(frame, dict) else frame for frame in wire.ending]
    fake.will(wire.shape(*wire.opening, *wire.more, *last))
    heard = await ask(wire.open(fake.url, ports), saying("hi"))
    assert heard.finished.message.text == "Hello"
    assert 0 <= heard.finished.usage.output <= 10**9


async def test_an_answer_that_is_no_json_at_all_is_still_explained(
    fake: FakeProvider, ports: ModelPorts, wire: Wire
) -> None:
    fake.will(Reply([b"<html>Bad gateway</html>"], status=502, type="text/html"))
    heard = await ask(wire.open(fake.url, ports), saying("hi"))
    assert heard.failed.kind is KINDS.SERVER
    assert "Bad gateway" in str(heard.failed)


async def test_the_body_repeats_nothing_and_asks_for_a_stream(
    fake: FakeProvider, ports: ModelPorts, wire: Wire
) -> None:
    fake.will(wire.answer())
    model = wire.open(fake.url, ports)
    request = saying("hi", tools=TOOLS)
    await ask(model, request)
    await ask(model, request)
    first, second = fake.asked
    assert first.raw == second.raw
    assert first.body["stream"] is True
    assert first.body["model"] == wire.spec.partition(":")[2]


async def test_one_connection_serves_several_answers(fake: FakeProvider, ports: ModelPorts, wire: Wire) -> None:
    if wire.name == "ollama":
        pytest.skip("the ollama package gets a client of its own for each answer")
    fake.will(wire.answer())
    model = wire.open(fake.url, ports)
    for _ in range(3):
        assert (await ask(model, saying("hi"))).text == "Hello"
    assert len(fake.connections) == 1

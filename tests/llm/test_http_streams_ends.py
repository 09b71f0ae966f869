"""How answers end, at servers that leave out what the protocol asks for, or send something else."""

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import ModelPorts, Stop
from goclaw.llm.chain import ModelChain
from tests.llm.asking import ask, saying
from tests.llm.fake_provider import FakeProvider, Reply, fake_provider, frames
from tests.llm.wires import ANTHROPIC, OPENAI, Wire, chunk

DONE = b"data: [DONE]\n\n"
KINDS = ModelErrorKind
PAGE = b"<!doctype html><html><head><title>Sign in</title></head><body>Welcome</body></html>"


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        yield server


def whole(body: object, type: str = "application/json") -> Reply:
    data = body if isinstance(body, bytes) else orjson.dumps(body, option=orjson.OPT_INDENT_2)
    return Reply([data[:10], data[10:]], type=type)


async def test_done_without_a_finish_reason_is_an_end(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(frames(chunk({"content": "Hello"}), DONE))
    finished = (await ask(OPENAI.open(fake.url, ports), saying("hi"))).finished
    assert (finished.message.text, finished.stop) == ("Hello", Stop.END)


async def test_a_call_in_such_an_answer_is_made(fake: FakeProvider, ports: ModelPorts) -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "get_time", "arguments": "{}"}}
    fake.will(frames(chunk({"tool_calls": [call]}), DONE))
    finished = (await ask(OPENAI.open(fake.url, ports), saying("hi"))).finished
    assert ([call.name for call in finished.message.calls], finished.stop) == (["get_time"], Stop.TOOLS)


OPENAI_WHOLE = {"choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}
ANTHROPIC_WHOLE = {"type": "message", "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"}


@pytest.mark.parametrize(("wire", "body"), [(OPENAI, OPENAI_WHOLE), (ANTHROPIC, ANTHROPIC_WHOLE)])
async def test_one_object_in_place_of_a_stream_is_an_answer(
    fake: FakeProvider, ports: ModelPorts, wire: Wire, body: object
) -> None:
    fake.will(whole(body))
    finished = (await ask(wire.open(fake.url, ports), saying("hi"))).finished
    assert (finished.message.text, finished.stop) == ("Hello", Stop.END)


OVERFLOW = {"object": "error", "message": "maximum context length is 8192 tokens, you sent 9000 tokens", "code": 400}
REJECTED = {"choices": None, "error_type": "BadRequestError", "error_message": "ids must be unique"}
FAILED = b'error: {"code":500,"message":"could not be evaluated","type":"server_error"}\n\n'


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (frames(OVERFLOW, DONE), KINDS.OVERFLOW, "8192"),
        (frames(REJECTED, DONE), KINDS.REJECTED, "ids must be unique"),
        (Reply([FAILED]), KINDS.SERVER, "could not be evaluated"),
        (whole({"error": {"message": "no such thing", "code": 400}}), KINDS.REJECTED, "no such thing"),
        (whole(b"upstream said no", "text/plain"), KINDS.REJECTED, "upstream said no"),
        (whole(PAGE, "text/html"), KINDS.NOT_FOUND, "Sign in"),
    ],
)
async def test_an_error_in_place_of_an_answer_tells_the_servers_words(
    fake: FakeProvider, ports: ModelPorts, reply: Reply, kind: ModelErrorKind, words: str
) -> None:
    fake.will(reply)
    failed = (await ask(OPENAI.open(fake.url, ports), saying("hi"))).failed
    assert failed.kind is kind
    assert words in str(failed)
    assert "\n" not in str(failed)


async def test_an_answer_that_broke_off_is_asked_for_twice_not_three_times(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    fake.will(frames(chunk({"content": "Hel"})))
    clock = SteppedClock()
    chain = ModelChain([OPENAI.open(fake.url, ports)], clock)
    async with asyncio.timeout(20):
        asking = asyncio.create_task(ask(chain, saying("hi")))
        while not asking.done():
            await asyncio.sleep(0)
            clock.advance(1.0)
        failed = (await asking).failed
    assert (failed.kind, len(fake.asked)) == (KINDS.TRUNCATED, 2)


async def test_a_line_that_was_cut_is_no_answer_in_words(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(frames(chunk({"content": "Hel"}), b"dat"))
    assert (await ask(OPENAI.open(fake.url, ports), saying("hi"))).failed.kind is KINDS.TRUNCATED

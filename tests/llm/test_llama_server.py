"""Streams that a real llama-server sent, replayed: what the wire reads in them."""

from goclaw.errors import ModelErrorKind
from goclaw.llm.base import ModelPorts, Stop
from tests.llm.asking import ask, saying
from tests.llm.fake_provider import FakeProvider
from tests.llm.llama_server import open_llama, replays

CALLS = {
    "structured_call": ("write", {"path": "hello.txt", "content": "Hello World"}),
    "structured_command": ("exec", {"command": "rm old.log"}),
}
FAILURES = {
    "overflow": ModelErrorKind.OVERFLOW,
    "loading": ModelErrorKind.LOADING,
    "server_error": ModelErrorKind.SERVER,
    "killed": ModelErrorKind.TRUNCATED,
}


async def test_a_recorded_answer_is_read_with_its_end_and_the_cache_that_it_used(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    replays(fake, "text", "length")
    model = open_llama(fake.url, ports)
    answer = (await ask(model, saying("Hi"))).finished
    assert (answer.message.text, answer.stop) == ("The capital of France is Paris.", Stop.END)
    cut = (await ask(model, saying("Hi"))).finished
    assert cut.stop is Stop.LENGTH and cut.message.text.startswith("1\n2\n3\n")
    assert cut.usage.cache_read and cut.usage.cache_read < cut.usage.input


async def test_calls_that_the_server_reads_by_its_template_are_calls(fake: FakeProvider, ports: ModelPorts) -> None:
    replays(fake, *CALLS)
    model = open_llama(fake.url, ports)
    for name, given in CALLS.values():
        answer = (await ask(model, saying("Do it"))).finished
        assert [(call.name, call.input) for call in answer.message.calls] == [(name, given)]
        assert answer.stop is Stop.TOOLS


async def test_what_the_server_refuses_and_a_killed_one_have_their_kinds(fake: FakeProvider, ports: ModelPorts) -> None:
    replays(fake, *FAILURES)
    model = open_llama(fake.url, ports)
    for name, kind in FAILURES.items():
        assert (await ask(model, saying("Hi"))).failed.kind is kind, name

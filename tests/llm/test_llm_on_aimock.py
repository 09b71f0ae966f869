"""The three wires on aimock, a model server of another project."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from goclaw.common.core.messages import ToolResult
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import CallStarted, ChatModel, ModelPorts, Stop
from tests.llm.asking import TOOLS, ask, saying
from tests.llm.wires import ANTHROPIC, OPENAI, Wire

HERE = Path(__file__).parent
PROGRAM = HERE.parent / "aimock" / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
BASE = {"anthropic": "", "openai": "/v1", "ollama": ""}

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def aimock() -> Iterator[str]:
    """Its address; a process of its own on a free port."""
    node = shutil.which("node")
    if node is None or not PROGRAM.exists():
        pytest.skip("aimock is not installed: run scripts/test once, with Node 20 or newer")
    command = [node, str(PROGRAM), "--port", "0", "--strict", "--fixtures", str(HERE / "aimock.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said = []
        try:
            for line in process.stdout:
                said.append(line)
                if found := re.search(r"listening on (http://\S+)", line):
                    yield found[1]
                    break
            else:
                pytest.fail(f"aimock did not start: {''.join(said)}")
        finally:
            process.terminate()


@pytest.fixture
def model(aimock: str, ports: ModelPorts, wire: Wire) -> ChatModel:
    return wire.open(aimock + BASE[wire.name], ports)


async def test_text(model: ChatModel) -> None:
    heard = await ask(model, saying("plain text, please"))
    assert heard.text == heard.finished.message.text == "Grüß Gott, this is an answer of several words."
    assert len(heard.events) >= 2
    assert heard.finished.stop is Stop.END


# For Ollama aimock 1.43 sends none; tests/llm/streams has such a stream.
@pytest.mark.parametrize("thinker", [ANTHROPIC, OPENAI], ids=lambda thinker: thinker.name)
async def test_thinking(aimock: str, ports: ModelPorts, thinker: Wire) -> None:
    heard = await ask(thinker.open(aimock + BASE[thinker.name], ports, thinking="low"), saying("think first"))
    assert heard.thinking == "Six times seven."
    assert heard.text == "Forty-two."


async def test_parallel_calls_and_the_turn_that_follows(model: ChatModel) -> None:
    heard = await ask(model, saying("weather and time", tools=TOOLS))
    answer = heard.finished.message
    assert [(call.name, call.input) for call in answer.calls] == [
        ("get_weather", {"city": "Tromsø"}),
        ("get_time", {"tz": "UTC"}),
    ]
    assert [event.name for event in heard.events if isinstance(event, CallStarted)] == ["get_weather", "get_time"]
    assert heard.finished.stop is Stop.TOOLS
    results = [ToolResult(call.id, call.name, "fine") for call in answer.calls]
    assert (await ask(model, saying("weather and time", answer, *results, tools=TOOLS))).text == "Rain at noon."


async def test_a_reminder_behind_the_results_is_read_as_the_last_words(model: ChatModel) -> None:
    answer = (await ask(model, saying("weather and time", tools=TOOLS))).finished.message
    results = [ToolResult(call.id, call.name, "fine") for call in answer.calls]
    reminder = "<system-reminder>\nThe user sees a graph.\n</system-reminder>"
    request = replace(saying("how is it?", answer, *results, tools=TOOLS), reminder=reminder)
    assert (await ask(model, request)).text == "As the graph shows."


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("too often", ModelErrorKind.RATE),
        ("server trouble", ModelErrorKind.SERVER),
        ("too long", ModelErrorKind.OVERFLOW),
        ("break off", ModelErrorKind.TRUNCATED),
    ],
)
async def test_failures_have_their_kind(model: ChatModel, words: str, kind: ModelErrorKind) -> None:
    heard = await ask(model, saying(words))
    assert heard.failed.kind is kind
    assert heard.failed.partial is (kind is ModelErrorKind.TRUNCATED)

"""What the tests of models share: a fake server, what models are given, and each wire in turn."""

from collections.abc import AsyncIterator

import pytest

from goclaw.llm.base import ModelPorts
from tests.llm.asking import model_ports
from tests.llm.fake_provider import FakeProvider, fake_provider, refusal
from tests.llm.wires import WIRES, Wire


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        # Ollama's side question; not knowing the answer must not matter.
        server.routes["/api/show"] = refusal(404, {"error": "unknown"})
        yield server


@pytest.fixture
async def ports() -> AsyncIterator[ModelPorts]:
    async with model_ports() as given:
        yield given


@pytest.fixture(params=WIRES, ids=lambda wire: wire.name)
def wire(request: pytest.FixtureRequest) -> Wire:
    assert isinstance(request.param, Wire)
    return request.param

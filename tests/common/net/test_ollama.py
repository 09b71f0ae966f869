import asyncio

import pytest

from goclaw.common.config.schema import ProviderSettings
from goclaw.common.net import open_client
from goclaw.common.net.ollama import ollama_url, probe
from tests.llm.fake_provider import Reply, fake_provider, lines, refusal

TAGS = {
    "models": [
        {"name": "old:latest", "modified_at": "2025-01-01T00:00:00Z"},
        {"name": "new:7b", "modified_at": "2026-11-01T00:00:00Z"},
    ]
}


@pytest.mark.parametrize(
    ("host", "url"),
    [
        (None, "http://127.0.0.1:11434"),
        ("", "http://127.0.0.1:11434"),
        ("box", "http://box:11434"),
        ("box:9000", "http://box:9000"),
        (":9000", "http://127.0.0.1:9000"),
        ("0.0.0.0", "http://127.0.0.1:11434"),  # noqa: S104  # what a server binds to, as data
        ("0.0.0.0:9000", "http://127.0.0.1:9000"),
        ("[::1]:9000", "http://[::1]:9000"),
        ("http://box:9000/", "http://box:9000"),
        ("http://box/ollama", "http://box:80/ollama"),
        ("https://box", "https://box:443"),
    ],
)
def test_every_form_of_ollama_host_is_understood(host: str | None, url: str) -> None:
    env = {} if host is None else {"OLLAMA_HOST": host}
    assert ollama_url(ProviderSettings(), env) == url


def test_the_configuration_comes_before_the_environment() -> None:
    settings = ProviderSettings(base_url="http://own:1234")
    assert ollama_url(settings, {"OLLAMA_HOST": "other"}) == "http://own:1234"


async def test_an_ollama_tells_its_models_the_newest_first_and_what_they_can() -> None:
    async with fake_provider() as fake, open_client() as http:
        fake.routes = {"/api/tags": lines(TAGS), "/api/show": lines({"capabilities": ["completion", "tools"]})}
        server = await probe(http, fake.url, limit=10)
    assert server is not None
    assert [model.name for model in server.models] == ["new:7b", "old:latest"]
    newest = server.with_tools()
    assert newest is not None
    assert newest.name == "new:7b"
    assert server.find("old") == server.models[1]
    assert server.find("new") is None
    assert server.for_chat() == newest


async def test_a_model_that_cannot_be_asked_about_can_nothing() -> None:
    async with fake_provider() as fake, open_client() as http:
        fake.routes = {"/api/tags": lines(TAGS), "/api/show": refusal(500, {})}
        server = await probe(http, fake.url, limit=10)
    assert server is not None
    assert server.with_tools() is None


@pytest.mark.parametrize(
    "reply",
    [refusal(404, {}), Reply([b"<html>"]), lines([1]), lines({"models": 3}), lines({"models": [{"nom": 1}]})],
)
async def test_somebody_else_on_the_port_is_no_ollama(reply: Reply) -> None:
    async with fake_provider() as fake, open_client() as http:
        fake.routes = {"/api/tags": reply}
        assert await probe(http, fake.url, limit=10) is None


async def test_nobody_is_no_ollama_and_silence_ends_the_question() -> None:
    async with fake_provider() as fake, open_client() as http, asyncio.timeout(10):
        assert await probe(http, "http://127.0.0.1:9") is None
        fake.will(Reply([b"{"], end="hang"))
        assert await probe(http, fake.url, limit=0.1) is None

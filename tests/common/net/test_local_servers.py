"""Servers of models on this machine are found on their ports."""

import orjson

from goclaw.common.config.schema import Config
from goclaw.common.net import open_client
from goclaw.common.net.local_servers import PLACES, LocalServer, find_local_servers
from goclaw.llm.open import find_models
from tests.llm.fake_provider import Reply, fake_provider
from tests.ports import free_port


def listing(*names: str) -> Reply:
    return Reply([orjson.dumps({"data": [{"id": name} for name in names]})], type="application/json")


async def test_servers_that_list_models_are_found_and_others_are_not() -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    async with fake_provider() as studio, fake_provider() as page, open_client() as http:
        studio.routes["/v1/models"] = listing("qwen3-4b", "text-embedding-nomic")
        page.routes["/v1/models"] = Reply([b"<html>hello</html>"], type="text/html")
        places = dict.fromkeys(PLACES, nowhere) | {"lmstudio": studio.url, "vllm": page.url}
        found = await find_local_servers(http, places)
    assert found == [LocalServer("lmstudio", "LM Studio", f"{studio.url}/v1", ("qwen3-4b",))]


async def test_what_they_serve_is_proposed() -> None:
    async def nobody() -> None:
        return None

    async def servers() -> list[LocalServer]:
        return [LocalServer("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1", ("qwen",))]

    found = await find_models(Config(), nobody, {}, servers)
    assert [(each.spec, each.reason) for each in found.candidates] == [
        ("llamacpp:qwen", "llama.cpp answers at http://127.0.0.1:8080/v1")
    ]

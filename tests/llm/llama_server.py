"""A fake llama-server that replays what a real one sent (`streams/llamacpp_*`; `tests.real_model.streams` records)."""

from pathlib import Path

from goclaw.common.config.schema import Config, ProviderSettings
from goclaw.llm.base import ChatModel, ModelPorts
from goclaw.llm.open import open_model
from tests.llm.fake_provider import STREAMS, TYPES, FakeProvider, Reply, recorded

SPEC = "llamacpp:qwen2.5-coder-1.5b"
STATUS = {"overflow": 400, "server_error": 500, "loading": 503}
"""Of the recordings that are refusals."""


def replay(name: str) -> Reply:
    """Return the answer that was recorded under this name (`streams/README.md` lists them)."""
    if name in STATUS:
        return Reply([_path(name, ".json").read_bytes()], status=STATUS[name], type=TYPES[".json"])
    return recorded(_path(name, ".sse").name, "cut" if name == "killed" else "clean")


def replays(fake: FakeProvider, *names: str) -> None:
    """Have the server tell its model and window (4,096) as the real one did, and answer with these recordings.

    Its address for `providers.llamacpp.base_url` is `fake.url` and `/v1`.
    """
    for path in ("/v1/models", "/props"):
        kept = _path(path.rpartition("/")[2], ".json").read_bytes()
        fake.routes[path] = Reply([kept], type=TYPES[".json"])
    fake.will(*map(replay, names))


def open_llama(url: str, ports: ModelPorts) -> ChatModel:
    """Return a model on the server at this address, with nothing else configured."""
    providers = {"llamacpp": ProviderSettings(base_url=f"{url}/v1")}
    return open_model(SPEC, Config(providers=providers), ports)


def _path(name: str, ending: str) -> Path:
    return STREAMS / f"llamacpp_{name}{ending}"

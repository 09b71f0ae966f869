from urllib.parse import urlsplit

import pytest

from goclaw.common.config.schema import Config, ProviderSettings
from goclaw.common.config.servers import SERVERS
from goclaw.common.net import is_loopback
from goclaw.llm.listed import snapshot
from goclaw.llm.open import open_model
from tests.llm.asking import ask, model_ports, saying
from tests.llm.fake_provider import fake_provider
from tests.llm.wires import OPENAI


@pytest.mark.parametrize("name", sorted(SERVERS))
def test_a_row_is_consistent(name: str) -> None:
    row = SERVERS[name]
    address = urlsplit(row.base_url)
    assert not row.base_url.endswith("/")
    assert row.local is (row.key_variable is None)
    if name == "local":
        assert not row.base_url, "any server: its address is what the operator sets"
    else:
        assert row.local is is_loopback(address.hostname or "")
        assert address.scheme == ("http" if row.local else "https")


@pytest.mark.parametrize("name", sorted(name for name, row in SERVERS.items() if row.data_id))
def test_the_model_data_know_the_provider_by_that_name(name: str) -> None:
    assert SERVERS[name].data_id in {provider.id for provider in snapshot().providers}


@pytest.mark.parametrize("name", sorted(SERVERS))
async def test_a_name_of_the_table_is_all_that_a_spec_needs(name: str) -> None:
    async with fake_provider() as fake, model_ports() as ports:
        fake.will(OPENAI.answer())
        config = Config(providers={name: ProviderSettings(base_url=f"{fake.url}/v1")})
        heard = await ask(open_model(f"{name}:org/model:free", config, ports), saying("hi"))
    assert heard.finished.spec == f"{name}:org/model:free"
    assert (fake.asked[0].path, fake.asked[0].body["model"]) == ("/v1/chat/completions", "org/model:free")

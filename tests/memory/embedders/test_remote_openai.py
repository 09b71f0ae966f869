"""Servers that speak OpenAI's embeddings: what they are sent, and what becomes of their trouble."""

from collections.abc import AsyncIterator

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.errors import ConfigError, EmbeddingError
from goclaw.memory.embedders.base import quantise
from goclaw.memory.embedding import open_embedder
from tests.memory.embedders.fake_server import KEY, FakeEmbeddings, fake_embeddings, vector

SPEC = "openai-chat:text-embedding-3-small"


@pytest.fixture
async def fake() -> AsyncIterator[FakeEmbeddings]:
    async with fake_embeddings() as running:
        yield running


async def failed(fake: FakeEmbeddings, clock: SteppedClock) -> EmbeddingError:
    async with open_embedder(SPEC, fake.config(SPEC, api_key=KEY), clock) as embedder:
        with pytest.raises(EmbeddingError) as raised:
            await embedder.embed(["hello"])
    assert KEY not in str(raised.value)
    return raised.value


async def test_each_text_gets_its_vector_whatever_the_order_of_the_answer(
    fake: FakeEmbeddings, clock: SteppedClock
) -> None:
    texts = ["one", "two words", "three words here"]
    async with open_embedder(SPEC, fake.config(SPEC, api_key=KEY), clock) as embedder:
        assert await embedder.embed(texts) == [quantise(vector(text)) for text in texts]
        assert await embedder.embed([]) == []
    assert fake.asked == [{"model": "text-embedding-3-small", "input": texts}] and fake.keys == [f"Bearer {KEY}"]


async def test_many_texts_go_in_batches(fake: FakeEmbeddings, clock: SteppedClock) -> None:
    async with open_embedder(SPEC, fake.config(SPEC), clock) as embedder:
        assert len(await embedder.embed(["text"] * (2 * embedder.batch + 1))) == 2 * embedder.batch + 1
        assert [len(body["input"]) for body in fake.asked] == [embedder.batch, embedder.batch, 1]


async def test_what_no_server_takes_is_made_sendable(fake: FakeEmbeddings, clock: SteppedClock) -> None:
    async with open_embedder(SPEC, fake.config(SPEC), clock) as embedder:
        await embedder.embed(["", " \n", "half \ud83d", "x" * 1_000_000])
    blank, blanks, half, huge = fake.asked[0]["input"]
    assert (blank, blanks, half) == ("-", "-", "half ?") and len(huge) == 8_000


async def test_a_model_that_tells_questions_from_answers_is_told_which_it_gets(
    fake: FakeEmbeddings, clock: SteppedClock
) -> None:
    spec = "lmstudio:nomic-embed-text-v1.5"
    async with open_embedder(spec, fake.config(spec), clock) as embedder:
        await embedder.embed(["who?"], query=True)
        await embedder.embed(["me"])
    assert [body["input"] for body in fake.asked] == [["search_query: who?"], ["search_document: me"]]


async def test_vectors_of_another_server_have_another_name(fake: FakeEmbeddings, clock: SteppedClock) -> None:
    async with (
        open_embedder(SPEC, fake.config(SPEC), clock) as elsewhere,
        open_embedder(SPEC, Config.model_validate({"providers": {"openai-chat": {"api_key": KEY}}}), clock) as there,
    ):
        assert there.name == SPEC and elsewhere.name == f"{SPEC}@{fake.url.removeprefix('http://')}"


@pytest.mark.parametrize(
    ("status", "body", "said", "patience"),
    [
        (401, f"Incorrect API key provided: {KEY}", "refused the key; check providers.openai-chat.api_key", None),
        (404, '{"error": {"message": "no such model"}}', "no such model; check the model in memory.embedder", None),
        (429, '{"error": {"message": "slow down"}}', "HTTP 429: slow down; trying again in 17 s", 17),
        (503, "", "HTTP 503", 17),
        (400, '{"error": "too long"}', "HTTP 400: too long", None),
        (200, "<html>", "not like an embedder", None),
        (200, '{"data": []}', "did not return one vector per text", None),
        (200, '{"data": [{"index": 0, "embedding": []}]}', "did not return one vector", None),
        (200, '{"data": [{"index": 0, "embedding": [1, null]}]}', "did not return one vector", None),
        (200, '{"data": [{"index": 7, "embedding": [1]}]}', "without vectors", None),
        (200, '{"data": 5}', "without vectors", None),
    ],
)
async def test_trouble_is_told_in_words_with_how_long_to_wait_and_without_the_key(
    fake: FakeEmbeddings, clock: SteppedClock, status: int, body: str, said: str, patience: float | None
) -> None:
    fake.status, fake.body, fake.headers = status, body, {"Retry-After": "17"}
    error = await failed(fake, clock)
    assert said in str(error) and error.retry_after == patience


async def test_a_server_that_is_gone_says_what_to_look_at(clock: SteppedClock) -> None:
    async with fake_embeddings() as gone:
        pass
    error = await failed(gone, clock)
    assert "cannot be reached" in str(error) and "providers.openai-chat.base_url" in str(error) and error.retry_after


async def test_the_texts_follow_no_redirect(fake: FakeEmbeddings, clock: SteppedClock) -> None:
    fake.status, fake.headers = 307, {"Location": f"{fake.url}/v1/embeddings"}
    assert "HTTP 307" in str(await failed(fake, clock)) and len(fake.asked) == 1


async def test_a_key_goes_to_its_own_server_only(
    fake: FakeEmbeddings, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with open_embedder(SPEC, fake.config(SPEC), clock) as embedder:
        await embedder.embed(["hello"])
    assert fake.keys == [""]


async def test_without_a_key_nothing_opens_and_the_variable_is_named(
    clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match=r"set OPENAI_API_KEY or providers.openai-chat.api_key"):
        async with open_embedder(SPEC, Config(), clock):
            pytest.fail("it opened")
    with pytest.raises(ConfigError, match=r"providers.acme.base_url"):
        async with open_embedder("acme:x", Config(), clock):
            pytest.fail("it opened")

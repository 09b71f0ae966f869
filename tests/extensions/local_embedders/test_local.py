"""A model on this machine: its process begins late, ends early, and whatever becomes of it is told in words."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.errors import ConfigError, EmbeddingError
from goclaw.extensions.local_embedders.local import ANSWER_SECONDS, LIBRARY, MAX_PAUSE, TO_EXPORT, TO_RUN, open_local
from goclaw.extensions.local_embedders.local_runtime import Interpreter
from goclaw.memory.embedders.base import Embedder, quantise
from tests import house
from tests.extensions.local_embedders.fake_python import FakeModel, fake_python

SECRET = "canary-environment-secret-0815"
DAEMON = """
import asyncio, sys
from goclaw.common.core.clock import RealClock
from goclaw.common.config.schema import Config
from goclaw.extensions.local_embedders.local import open_local

async def main(python, spec, state_dir):
    config = Config.model_validate({"state_dir": state_dir, "memory": {"embedder_python": python}})
    async with open_local(spec, config, RealClock()) as embedder:
        await embedder.embed(["hello"])
        await embedder.embed(["hang"])

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    return fake_python(tmp_path_factory.mktemp("python"))


@pytest.fixture
def model(tmp_path: Path) -> FakeModel:
    return FakeModel(tmp_path)


@pytest.fixture
async def bound() -> AsyncIterator[None]:
    async with asyncio.timeout(30):
        yield


pytestmark = pytest.mark.usefixtures("bound", "nothing_is_lost")


def opened(
    model: FakeModel, clock: SteppedClock, python: Interpreter, **memory: Any
) -> AbstractAsyncContextManager[Embedder]:
    settings = {"state_dir": str(model.path.parent / "state"), "memory": memory}
    return open_local(model.spec, Config.model_validate(settings), clock, python)


async def has_ended(pid: int) -> None:
    """Return when the process is gone."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(process, ended.set)
    try:
        await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(process)
        os.close(process)


async def eventually(look: Callable[[], object]) -> None:
    """Return when `look` finds something."""
    while not look():  # noqa: ASYNC110  # another process does it, and tells nobody
        await asyncio.sleep(0)


async def moved(clock: SteppedClock, seconds: float) -> None:
    """Time passes for whoever waits for it."""
    await eventually(lambda: clock.sleepers)
    clock.advance(seconds)


async def test_the_first_text_begins_a_process_and_the_others_share_it(
    model: FakeModel, clock: SteppedClock, python: Interpreter
) -> None:
    async with opened(model, clock, python) as embedder:
        assert embedder.name.startswith("sentence-transformers:model@") and not model.begun()
        assert await embedder.embed([]) == [] and not model.begun()
        found = await embedder.embed(["two words", "one", ""])
        assert found == [quantise(vector) for vector in ([9, -1, 0.5], [3, 0, 0.5], [1, 0, 0.5])]
        assert await embedder.embed(["one"], query=True) == [found[1]]
    (process,) = model.begun()
    await has_ended(process["pid"])


async def test_the_process_sees_nothing_of_our_environment_and_gives_way_to_others(
    model: FakeModel, clock: SteppedClock, python: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:{SECRET}@127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with opened(model, clock, python) as embedder:
        await embedder.embed(["hello"])
    (process,) = model.begun()
    assert SECRET not in str(process) and process["env"]["HTTP_PROXY"] == "http://127.0.0.1:1"
    assert process["env"]["HF_HUB_OFFLINE"] == "1"  # its model is here
    assert process["nice"] >= 10 and process["options"]["trust_remote_code"] is False


async def test_without_work_it_ends_and_the_next_text_begins_another(
    model: FakeModel, clock: SteppedClock, python: Interpreter
) -> None:
    async with opened(model, clock, python, embedder_idle=60) as embedder:
        await embedder.embed(["one"])
        await moved(clock, 60)
        await has_ended(model.begun()[0]["pid"])
        await embedder.embed(["two"])
    assert len(model.begun()) == 2


async def test_a_query_goes_before_batches_that_wait_for_the_process(
    model: FakeModel, clock: SteppedClock, python: Interpreter
) -> None:
    async with opened(model, clock, python) as embedder, asyncio.TaskGroup() as group:
        group.create_task(embedder.embed(["one", "two"]))
        group.create_task(embedder.embed(["three"]))
        group.create_task(embedder.embed(["who asks"], query=True))
    assert model.embedded() == ["who asks", "one", "two", "three"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("die", r"killed \(signal 9\); perhaps memory ran out"), ("raise", "ValueError: this model cannot count")],
)
async def test_a_process_that_ends_is_told_and_begun_anew_after_a_pause(
    model: FakeModel, clock: SteppedClock, python: Interpreter, text: str, said: str
) -> None:
    async with opened(model, clock, python) as embedder:
        with pytest.raises(EmbeddingError, match=said):
            await embedder.embed([text])
        with pytest.raises(EmbeddingError, match=said) as early:
            await embedder.embed(["one"])
        assert early.value.retry_after == 1 and len(model.begun()) == 1
        clock.advance(1)
        assert await embedder.embed(["one"])
        assert len(model.begun()) == 2


async def test_the_pause_grows_with_each_failure_and_is_short_again_after_an_answer(
    model: FakeModel, clock: SteppedClock, python: Interpreter
) -> None:
    pauses = []
    async with opened(model, clock, python) as embedder:
        for text in ("raise", "raise", "one", "raise"):
            clock.advance(MAX_PAUSE)
            try:
                await embedder.embed([text])
            except EmbeddingError as error:
                pauses.append(error.retry_after)
    assert pauses == [1, 2, 1]


async def test_one_that_hangs_is_ended(model: FakeModel, clock: SteppedClock, python: Interpreter) -> None:
    async with opened(model, clock, python) as embedder:
        await embedder.embed(["one"])
        asking = asyncio.create_task(embedder.embed(["hang"]))
        await eventually(lambda: "hang" in model.embedded())
        await moved(clock, ANSWER_SECONDS)
        with pytest.raises(EmbeddingError, match="did not answer and was stopped"):
            await asking
        await has_ended(model.begun()[0]["pid"])


async def test_one_that_grows_too_large_answers_and_is_begun_anew_which_is_told_once(
    model: FakeModel, clock: SteppedClock, python: Interpreter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "goclaw.extensions.local_embedders.local")
    async with opened(model, clock, python, embedder_memory=200) as embedder:
        for _ in range(2):
            assert await embedder.embed(["grow"])
    assert len(model.begun()) == 2
    assert len([record for record in caplog.records if "MB of the 200" in record.getMessage()]) == 1


async def test_a_model_that_is_too_large_from_the_start_says_what_to_change(
    model: FakeModel, clock: SteppedClock, python: Interpreter
) -> None:
    (model.path / "large").touch()
    async with opened(model, clock, python, embedder_memory=200) as embedder:
        with pytest.raises(EmbeddingError, match=r"uses \d+ MB, but memory.embedder_memory allows 200: raise that"):
            await embedder.embed(["one"])


async def test_who_waits_no_longer_takes_nobody_else_along(
    model: FakeModel, clock: SteppedClock, python: Interpreter
) -> None:
    async with opened(model, clock, python) as embedder:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await embedder.embed(["impatient"], query=True)
        assert await embedder.embed(["patient"])
    assert model.embedded() == ["patient"]


async def test_the_block_ends_while_it_works(model: FakeModel, clock: SteppedClock, python: Interpreter) -> None:
    async with opened(model, clock, python) as embedder:
        asking = asyncio.create_task(embedder.embed(["hang"]))
        await eventually(model.embedded)
    await has_ended(model.begun()[0]["pid"])
    asking.cancel()
    await asyncio.wait({asking})


async def test_it_dies_with_the_daemon_however_that_dies(model: FakeModel, python: Interpreter) -> None:
    daemon = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DAEMON, python.path, model.spec, str(model.path.parent / "state")), cwd=house.ROOT
    )
    await eventually(lambda: daemon.returncode is not None or "hang" in model.embedded())
    daemon.send_signal(signal.SIGKILL)
    await daemon.wait()
    await has_ended(model.begun()[0]["pid"])


async def test_a_models_own_words_for_questions_stand_before_them(
    tmp_path: Path, clock: SteppedClock, python: Interpreter
) -> None:
    model = FakeModel(tmp_path, query="ask: ", passage="tell: ")
    async with opened(model, clock, python) as embedder:
        await embedder.embed(["who"], query=True)
        await embedder.embed(["me"])
    assert model.prompts() == ["ask: ", "tell: "]


async def test_where_the_small_form_cannot_be_made_the_original_serves(
    model: FakeModel, clock: SteppedClock, python: Interpreter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "goclaw.extensions.local_embedders.local")
    claimed = replace(python, packages=dict.fromkeys((LIBRARY, *TO_EXPORT), ""))
    async with opened(model, clock, claimed) as embedder:
        assert await embedder.embed(["one"])
    (line,) = [record.getMessage() for record in caplog.records if "small form" in record.getMessage()]
    assert "No module named" in line and line.endswith("the original serves")


async def test_a_small_form_that_cannot_be_read_goes_and_the_original_serves(
    model: FakeModel, clock: SteppedClock, python: Interpreter
) -> None:
    claimed = replace(python, packages=dict.fromkeys((LIBRARY, *TO_RUN), ""))
    async with opened(model, clock, claimed) as embedder:
        version = embedder.name.rpartition("@")[2]
        broken = model.path.parent / "state" / "models" / "model" / f"{version}-v1"
        broken.mkdir(parents=True)
        with pytest.raises(EmbeddingError):
            await embedder.embed(["one"])
        clock.advance(1)
        assert await embedder.embed(["one"])
        assert not broken.exists()


async def test_without_the_extra_it_says_how_to_install_it(
    model: FakeModel, clock: SteppedClock, python: Interpreter
) -> None:
    with pytest.raises(ConfigError, match=r"sentence-transformers is not installed in .*; docs/memory.md"):
        async with opened(model, clock, replace(python, packages={})):
            pytest.fail("it opened")


async def test_a_python_that_is_gone_is_told(model: FakeModel, clock: SteppedClock, python: Interpreter) -> None:
    async with opened(model, clock, replace(python, path="/nowhere/python")) as embedder:
        with pytest.raises(EmbeddingError, match=r"cannot be started \(No such file or directory\)"):
            await embedder.embed(["one"])

"""A person on Telegram and a model on the host, while the gateway's container is killed or upgraded."""

import asyncio
import io
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.containers.conftest import BUILT_FROM
from tests.containers.engine import HOST, ROOT, Engine
from tests.containers.project import Project
from tests.fake_telegram.server import FakeTelegram
from tests.llm.fake_provider import FakeProvider, Reply, fake_provider, frames
from tests.llm.wires import chunk

pytestmark = [pytest.mark.long, pytest.mark.containers, pytest.mark.timeout(1800)]
ANN = 5
BEFORE = "f2322c4c8f2194dd32a651475b3ab14e6bcbd6bd"
"""The revision before the image got `git` and `curl`; its tables are those of today."""
RESUMED_SECONDS = 120


@dataclass
class Chat:
    """A person's chat, and the model that answers in it."""

    project: Project
    telegram: FakeTelegram
    model: FakeProvider

    async def wait_text(self, text: str) -> None:
        """Return when the person sees a message with this text."""
        await self.telegram.wait_for(lambda: self.with_text(text) or None, RESUMED_SECONDS)

    def with_text(self, text: str) -> list[str]:
        """Return the messages with this text, as the person sees them."""
        return [sent.text for sent in self.telegram.sent(ANN) if text in sent.text]

    async def ask_for(self, text: str, begun: str, whole: str) -> None:
        """Say something; return when the model has begun an answer that it will not end. Asked again, it does."""
        self.model.will(reply(begun, ends=False), reply(whole))
        self.model.streaming.clear()
        await self.telegram.world.say(text, user=ANN)
        async with asyncio.timeout(RESUMED_SECONDS):
            await self.model.streaming.wait()

    def asked(self, text: str) -> list[str]:
        """Return the requests to the model in which the person says this."""
        return [received.raw.decode() for received in self.model.received if text in received.raw.decode()]


def reply(*texts: str, ends: bool = True) -> Reply:
    """An answer of the model."""
    begun = (chunk({"role": "assistant", "content": ""}), *(chunk({"content": text}) for text in texts))
    return frames(*begun, chunk({}, "stop"), b"data: [DONE]\n\n") if ends else frames(*begun, end="hang")


@asynccontextmanager
async def chat_of(project: Project) -> AsyncIterator[Chat]:
    """Connect the gateway to Telegram and to a model as the page says; Ann is its admin."""
    async with FakeTelegram() as telegram, fake_provider() as model:
        model.will(reply("I am here."))
        variables = {
            "GOCLAW_TELEGRAM__BASE_URL": on_host(telegram.base_url),
            "GOCLAW_MODELS__AGENT": "llamacpp:small",
            "GOCLAW_PROVIDERS__LLAMACPP__BASE_URL": on_host(model.url),
        }
        with project.settings(**variables):
            # A new volume: the update ids of another fake begin anew, which those of Telegram never do.
            await asyncio.to_thread(project.remove)
            await asyncio.to_thread(project.up)
            await asyncio.to_thread(project.inside, "goclaw", "users", "add", f"telegram:{ANN}", "--role", "admin")
            project.set_secret("telegram_token", telegram.token)
            await asyncio.to_thread(project.compose, "restart", "gateway")
            yield Chat(project, telegram, model)
            assert telegram.token not in await asyncio.to_thread(project.compose, "logs", "gateway")
    project.set_secret("telegram_token", "")


def on_host(url: str) -> str:
    """Return the address under which a container reaches a server on the machine's loopback."""
    return url.replace("127.0.0.1", HOST)


async def test_telegram_answers_when_its_token_is_in_the_file(project: Project) -> None:
    async with chat_of(project) as chat:
        await chat.telegram.world.say("hello", user=ANN)
        await chat.wait_text("I am here.")


async def test_an_answer_that_a_kill_cut_off_comes_whole_and_once(project: Project) -> None:
    async with chat_of(project) as chat:
        await chat.ask_for("tell me a story", "Once upon", "Once upon a time there was a pelican.")
        [container] = await asyncio.to_thread(project.containers)
        restarts = project.inspect(container)["RestartCount"]
        await asyncio.to_thread(project.kill_daemon, container)
        await chat.wait_text("Once upon a time there was a pelican.")
        await asyncio.to_thread(project.wait_healthy, container)
        assert project.inspect(container)["RestartCount"] == restarts + 1
        assert len(chat.with_text("pelican")) == 1
        first, second = chat.asked("tell me a story")
        assert first.count("tell me a story") == second.count("tell me a story") == 1


async def test_a_new_token_counts_after_a_restart(project: Project) -> None:
    async with chat_of(project) as chat:
        chat.telegram.token = f"{chat.telegram.token.partition(':')[0]}:{'b' * 35}"  # as @BotFather's /revoke gives
        project.set_secret("telegram_token", chat.telegram.token)
        await asyncio.to_thread(project.compose, "restart", "gateway")
        await chat.telegram.world.say("hello again", user=ANN)
        await chat.wait_text("I am here.")


@pytest.fixture(scope="module")
def earlier(engine: Engine, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The gateway of an earlier revision, by the compose file of today: the earlier one is no valid project."""
    folder = tmp_path_factory.mktemp("earlier")
    packed = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"this checkout has no revision {BEFORE[:8]}: its history is needed")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    shutil.copy(checkout / "docker-compose.yml", folder)
    with Project(engine, folder).running() as started:
        yield started


async def test_an_upgrade_keeps_all_and_goes_on_with_what_was_under_way(earlier: Project, checkout: Path) -> None:
    async with chat_of(earlier) as chat:
        await chat.telegram.world.say("my bird is a pelican", user=ANN)
        await chat.wait_text("I am here.")
        await asyncio.to_thread(earlier.inside, "sh", "-c", "echo kept > /data/workspace/note")
        [before] = await asyncio.to_thread(earlier.containers)
        image = earlier.inspect(before)["Image"]
        await chat.ask_for("what is my bird?", "Your bird", "Your bird is the pelican.")
        pull(checkout, earlier.folder)
        await asyncio.to_thread(earlier.shell, "docker compose up --build --detach")
        await chat.wait_text("Your bird is the pelican.")
        assert len(chat.with_text("is the pelican")) == 1
        assert "my bird is a pelican" in chat.asked("what is my bird?")[-1]
        [after] = await asyncio.to_thread(earlier.containers)
        assert earlier.inspect(after)["Image"] != image
        await asyncio.to_thread(earlier.wait_healthy, after)
        assert earlier.inside("cat", "/data/workspace/note") == "kept\n"


def pull(source: Path, folder: Path) -> None:
    """`git pull`, as far as the image is concerned."""
    shutil.rmtree(folder / "goclaw")
    shutil.copytree(source / "goclaw", folder / "goclaw")
    for name in (*BUILT_FROM, *(lock.name for lock in source.glob("requirements*.lock"))):
        shutil.copy(source / name, folder / name)

"""The whole wizard as a program: before a fake Telegram and a fake model server, through pipes and in a terminal."""

import asyncio
import json
import os
import pty
import re
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from goclaw.common.config.schema import Config
from goclaw.common.config.state import open_state
from goclaw.common.net import LOOPBACK_ONLY
from goclaw.durable.store.open import stored_fact
from goclaw.llm.served import TEXT_CALLS, CallStyle
from tests.acceptance import forking
from tests.acceptance.daemon import ROOT, Installation
from tests.acceptance.model import EchoModel, echo_model
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram
from tests.forked import run_goclaw
from tests.llm.fake_provider import fake_provider, lines, recorded, refusal

KEY, WRONG_KEY = "sk-right-0123456789abcdef", "sk-wrong-0123456789abcdef"
TOKEN = "424242424:AAfake-token-of-the-fake-telegram-000001"
WRONG_TOKEN = "424242424:AAwrong-token-of-somebody-else-entirely"
PATIENCE = 30.0
CODE = re.compile(r"\n\s{7}(\d{8})\s*\n")

pytestmark = pytest.mark.timeout(120)


@dataclass
class Wizard:
    """`goclaw setup` that runs: what it said so far, and how to answer."""

    process: asyncio.subprocess.Process | forking.Forked
    output: int
    """Descriptor that its words come from."""
    keys: int
    """Descriptor that answers go to."""
    said: str = ""
    _raw: bytes = field(default=b"")

    async def until(self, words: str) -> str:
        """What was said, once `words` are in it."""
        return await eventually(lambda: self.hear() if words in self.hear() else None, PATIENCE)

    async def code(self) -> str:
        """The one-time code."""
        return (await eventually(lambda: CODE.search(self.hear()), PATIENCE))[1]

    def type(self, *lines: str) -> None:
        os.write(self.keys, "".join(f"{line}\n" for line in lines).encode())

    async def end(self) -> int:
        async with asyncio.timeout(PATIENCE):
            code = await self.process.wait()
        self.hear()
        return code

    def hear(self) -> str:
        """Everything that was said so far."""
        try:
            while more := os.read(self.output, 65_536):
                self._raw += more
        except (BlockingIOError, OSError):
            pass  # nothing more yet; a terminal whose program has ended says so with an error
        self.said = self._raw.decode(errors="replace").replace("\r\n", "\n")
        return self.said


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: the socket below it may have 107 bytes."""
    made = Path(tempfile.mkdtemp(prefix="goclaw-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram(token=TOKEN) as fake:
        yield fake


@pytest.fixture
async def model() -> AsyncIterator[EchoModel]:
    async with echo_model() as server:
        yield server


@pytest.fixture
def home(folder: Path, telegram: FakeTelegram, model: EchoModel) -> Installation:
    """A machine where nothing is configured but where Telegram and OpenAI are."""
    return Installation(
        folder,
        environment={
            "GOCLAW_TELEGRAM__BASE_URL": telegram.base_url,
            "GOCLAW_PROVIDERS__OPENAI_CHAT__BASE_URL": model.url,
            LOOPBACK_ONLY: "1",
        },
        forks=True,
    )


@asynccontextmanager
async def wizard(
    home: Installation, *arguments: str, terminal: bool = False, **environment: str
) -> AsyncIterator[Wizard]:
    """The program with pipes, forked; or in a terminal of its own, started as it is for people."""
    if terminal:
        control, inside = pty.openpty()
        output, keys, stdin, stdout = control, control, inside, inside
    else:
        (stdin, keys), (output, stdout) = os.pipe(), os.pipe()
    os.set_blocking(output, False)
    command, settings = ("setup", *arguments), {**environment_of(home), **environment}
    process: asyncio.subprocess.Process | forking.Forked
    if forking.IS_POSSIBLE and not terminal:
        module = (run_goclaw.__module__, str(home.folder))
        process = await forking.template().start(
            [*module, *command], settings, {0: stdin, 1: stdout, 2: stdout}, own_session=True
        )
    else:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "goclaw", *command),
            stdin=stdin,
            stdout=stdout,
            stderr=stdout,
            env=settings,
            cwd=home.folder,
            preexec_fn=take_terminal if terminal else None,
            start_new_session=True,
        )
    for descriptor in {stdin, stdout}:
        os.close(descriptor)
    try:
        yield Wizard(process, output, keys)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        for descriptor in {output, keys}:
            os.close(descriptor)


def take_terminal() -> None:
    """Make the terminal the one that Ctrl-C comes from: the first that a new session opens."""
    os.close(os.open(os.ttyname(0), os.O_RDWR))


def environment_of(home: Installation) -> Mapping[str, str]:
    path = os.environ.get("PATH", os.defpath)
    fixed = {"HOME": str(home.folder), "PYTHONPATH": str(ROOT), "GOCLAW_STATE_DIR": str(home.state)}
    return {"PATH": path, "OLLAMA_HOST": "http://127.0.0.1:9", "PYTHONUTF8": "1", **fixed, **home.environment}


def files(home: Installation) -> set[str]:
    return {str(path.relative_to(home.folder)) for path in home.folder.rglob("*")}


@pytest.mark.promise("P-setup-owner")
async def test_from_nothing_to_an_answer_in_telegram(home: Installation, telegram: FakeTelegram) -> None:
    """The five minutes: wrong answers first, then the right ones, then the daemon."""
    await telegram.world.say("I was here before", user=8)
    async with wizard(home) as asked:
        asked.type("openai-chat:echo", KEY, WRONG_TOKEN, telegram.token)
        code = await asked.code()
        await telegram.world.say("00000000", user=8)
        await telegram.world.say(code, user=9, chat=-100)
        await telegram.world.say(code, user=5)
        await asked.until("4. Other people")
        asked.type("telegram:6 child Cem", "", "")
        assert await asked.end() == 0
    for words in ("✓ openai-chat:echo answers", "✗ Telegram refuses", "✓ @claw_bot answers", "✓ Ann (telegram:5)"):
        assert words in asked.said
    assert asked.said.endswith("Next: `goclaw`\n") and KEY not in asked.said and "AA" not in asked.said
    assert files(home) == {
        *("state", "state/config.yaml", "state/users.json"),
        *("state/secrets", "state/secrets/openai_api_key", "state/secrets/telegram_token"),
        *("state/goclaw.db", "state/goclaw.lock"),
    }
    assert stored_fact(home.state / "goclaw.db", f"{TEXT_CALLS}:openai-chat:echo") == CallStyle.NONE
    check = await home.run("config", "check")
    assert check.code == 0 and "warning" not in check.err
    weak = check.out.partition("Weak:")[2].partition("Rights:")[0]
    assert [line for line in weak.splitlines() if line.startswith("  ") and "→" not in line] == (
        ["  GoClaw runs as root: anything that escapes it controls the whole machine"] if os.geteuid() == 0 else []
    )

    await home.start(telegram)
    try:
        await telegram.world.say("m1 plain", user=5)
        await eventually(lambda: any(sent.text == "answer m1 (end)" for sent in telegram.sent(5)))
        await eventually(lambda: not telegram.world.updates)
        assert telegram.sent(8) == [], "who is not listed is not answered"
    finally:
        assert await home.stop() == 0


@pytest.mark.promise("P-setup-harmless")
async def test_whatever_was_written_before_is_left_to_the_byte(home: Installation, telegram: FakeTelegram) -> None:
    home.state.mkdir(mode=0o700)
    existing = home.state / "config.yaml"
    existing.write_bytes(b"# mine\r\nmodels:\r\n  summary: []\r\n")
    async with wizard(home) as asked:
        asked.type("openai-chat:echo", KEY, "")
        assert await asked.end() == 0
    assert existing.read_bytes() == b"# mine\r\nmodels:\r\n  summary: []\r\n"
    assert 'Below `models:` (state/config.yaml:2:1) add:\n  agent: ["openai-chat:echo"]\n' in asked.said


async def test_an_ollama_that_a_variable_of_this_shell_leads_to_is_found_by_the_service_as_well(
    home: Installation,
) -> None:
    async with fake_provider() as server:
        tags = {"models": [{"name": "qwen3:8b", "modified_at": "2026"}]}
        server.routes = {"/api/tags": lines(tags), "/api/show": lines({"capabilities": ["completion", "tools"]})}
        server.will(recorded("ollama_text.ndjson"))
        async with wizard(home, OLLAMA_HOST=server.url) as asked:
            asked.type("1", "")
            assert await asked.end() == 0
        text = (home.state / "config.yaml").read_text()
        assert text.splitlines()[1:] == [
            *("models:", '  agent: ["ollama:qwen3:8b"]'),
            *("providers:", "  ollama:", f'    base_url: "{server.url}"'),
        ]
        assert (await home.run("config", "check")).code == 0


async def test_a_server_at_an_address_is_written_as_a_person_would_and_its_key_into_a_file(home: Installation) -> None:
    async with fake_provider() as server:
        server.routes = {"/v1/models": lines({"data": [{"id": "qwen3"}]})}
        server.will(recorded("openai_text.sse"))
        async with wizard(home) as asked:
            asked.type(server.url, KEY, "1", "")
            assert await asked.end() == 0
    assert (home.state / "config.yaml").read_text().splitlines()[1:] == [
        *("models:", '  agent: ["local:qwen3"]'),
        *("providers:", "  local:", f'    base_url: "{server.url}/v1"'),
    ]
    assert (home.state / "secrets" / "providers__local__api_key").read_text().strip() == KEY
    assert (await home.run("config", "check")).code == 0


async def test_enter_skips_every_question(home: Installation) -> None:
    async with wizard(home) as asked:
        asked.type("", "")
        assert await asked.end() == 0
    assert files(home) == set() and "Nothing to change." in asked.said


async def test_the_end_of_the_input_skips_every_question(home: Installation) -> None:
    done = await home.run("setup")
    assert done.code == 0 and files(home) == set()


async def test_a_daemon_that_runs_has_to_be_restarted(home: Installation) -> None:
    with open_state(Config(state_dir=home.state)):
        async with wizard(home) as asked:
            asked.type("openai-chat:echo", KEY, "")
            assert await asked.end() == 0
    assert asked.said.endswith("Next: `goclaw restart`\n")


async def test_a_daemon_that_runs_goes_on_when_nothing_is_new(home: Installation) -> None:
    with open_state(Config(state_dir=home.state)):
        async with wizard(home) as asked:
            asked.type("", "")
            assert await asked.end() == 0
    assert asked.said.endswith("Nothing to change.\n\nNext: `goclaw`\n")


async def test_options_answer_and_nothing_is_asked(home: Installation, telegram: FakeTelegram) -> None:
    (home.folder / "key").write_text(f"{KEY}\n")
    (home.folder / "token").write_text(f"{telegram.token}\n")
    options = ("--model", "openai-chat:echo", "--key-file", str(home.folder / "key"), "--owner-id", "5")
    others = ("--person", "telegram:6 child Cem", "--person", "tui:gus guest")
    token = ("--telegram-token-file", str(home.folder / "token"))
    async with wizard(home, *options, *token, *others, "--no-input") as asked:
        assert await asked.end() == 0
    assert "[Enter" not in asked.said and telegram.called("getUpdates") == []
    users = json.loads((home.state / "users.json").read_text())["users"]
    assert {key: entry["roles"] for key, entry in users.items()} == {
        "telegram:5": ["admin"],
        "telegram:6": ["child"],
        "tui:gus": ["guest"],
    }
    assert users["telegram:6"]["name"] == "Cem"
    assert set(yaml.safe_load((home.state / "config.yaml").read_text())["roles"]) == {"child", "guest"}
    assert (await home.run("config", "check")).code == 0
    assert (home.state / "secrets" / "openai_api_key").read_text().strip() == KEY


@pytest.mark.parametrize("wrong", ["key", "token"])
async def test_a_wrong_option_writes_nothing_and_fails(home: Installation, telegram: FakeTelegram, wrong: str) -> None:
    async with fake_provider() as provider:
        refused = refusal(401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}})
        provider.will(refused if wrong == "key" else recorded("openai_text.sse"))
        (home.folder / "key").write_text(WRONG_KEY)
        (home.folder / "token").write_text(WRONG_TOKEN if wrong == "token" else telegram.token)
        before = files(home)
        async with wizard(
            home,
            *("--model", "openai-chat:gpt", "--key-file", str(home.folder / "key"), "--owner-id", "5"),
            *("--telegram-token-file", str(home.folder / "token"), "--no-input"),
            GOCLAW_PROVIDERS__OPENAI_CHAT__BASE_URL=provider.url,
        ) as asked:
            assert await asked.end() == 1
    assert files(home) == before
    assert ("refused the key" if wrong == "key" else "refuses this token") in asked.said.splitlines()[-1]
    assert WRONG_KEY not in asked.said and WRONG_TOKEN not in asked.said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--owner-id", "@ann"), "usernames change hands"),
        (("--key-file", "nowhere"), "needs --model"),
        (("--person", "telegram:6 gest"), "available: owner, adult, child, guest"),
        (("--model", "x:y", "--key-file", "nowhere"), "cannot be read"),
    ],
)
async def test_wrong_usage_is_exit_code_2(home: Installation, arguments: tuple[str, ...], words: str) -> None:
    done = await home.run("setup", *arguments)
    assert done.code == 2 and words in done.err and files(home) == set()


async def test_a_folder_that_cannot_be_written_to_is_said_before_the_first_question(home: Installation) -> None:
    (home.folder / "file").write_text("")
    async with wizard(home, GOCLAW_STATE_DIR=str(home.folder / "file" / "state")) as asked:
        assert await asked.end() == 1
    assert "not writable" in asked.said and "The model" not in asked.said


async def test_a_named_file_that_is_missing_is_made_there(home: Installation) -> None:
    place = home.folder / "etc" / "mine.yaml"
    async with wizard(home, "--config", str(place)) as asked:
        asked.type("openai-chat:echo", KEY, "")
        assert await asked.end() == 0
    assert 'agent: ["openai-chat:echo"]' in place.read_text() and stat.S_IMODE(place.stat().st_mode) == 0o600
    assert asked.said.endswith(f"Next: `goclaw --config {place}`\n") and not (home.state / "config.yaml").exists()


@pytest.mark.parametrize("moment", ["model", "key", "code"])
@pytest.mark.promise("P-setup-harmless")
async def test_ctrl_c_leaves_a_terminal_as_it_was_and_nothing_written(
    home: Installation, telegram: FakeTelegram, moment: str
) -> None:
    answers = {"model": [], "key": ["openai-chat:echo"], "code": ["openai-chat:echo", KEY, telegram.token]}[moment]
    last = {"model": "Number or", "key": "Key for", "code": "Waiting 5 minutes"}[moment]
    async with wizard(home, terminal=True) as asked:
        for answer, question in zip(answers, ("Number or", "Key for", "Token"), strict=False):
            await asked.until(question)
            asked.type(answer)
        await asked.until(last)
        os.write(asked.keys, b"\x03")
        assert await asked.end() == 128 + signal.SIGINT
    assert asked.said.endswith("goclaw: stopped; nothing was written\n") and files(home) == set()


async def test_in_a_terminal_no_secret_is_shown(home: Installation, telegram: FakeTelegram) -> None:
    steps: list[tuple[str, Callable[[], str]]] = [
        ("Number or", lambda: "openai-chat:echo"),
        ("Key for openai-chat (hidden)", lambda: KEY),
        ("Token (hidden)", lambda: telegram.token),
        ("Waiting", lambda: "5"),
        ("done]:", lambda: ""),
    ]
    async with wizard(home, terminal=True) as asked:
        for question, answer in steps:
            await asked.until(question)
            asked.type(answer())
        assert await asked.end() == 0
    assert "openai-chat:echo\n" in asked.said
    assert KEY not in asked.said and telegram.token not in asked.said
    assert (home.state / "secrets" / "telegram_token").read_text().strip() == telegram.token
    assert max(map(len, asked.said.splitlines())) <= 80

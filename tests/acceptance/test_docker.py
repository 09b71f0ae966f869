"""The container of docker-compose.yml without an engine: built from the Dockerfile, started, asked, upgraded, ended.

What only an engine does (networks, cgroups, its seccomp and AppArmor profiles, named volumes) is not tried here.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from goclaw.program.app import GRACE_SECONDS
from tests.acceptance.daemon import Ran
from tests.acceptance.image import ROOT, NotPossible, Stage, build, inside
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.server import FakeTelegram

pytestmark = [pytest.mark.slow, pytest.mark.sqlite("what is installed has the store of its own settings")]

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
GATEWAY, OLLAMA = COMPOSE["services"]["gateway"], COMPOSE["services"]["ollama"]
ANN = 5
STATUS_MEGABYTES = 80
"""What a health check may take; it is 52."""


def seconds(text: str) -> float:
    """A duration as Docker writes it."""
    found = re.fullmatch(r"(\d+)(s|m)", text)
    assert found, text
    return float(found[1]) * {"s": 1, "m": 60}[found[2]]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The image, built once."""
    folder = tmp_path_factory.mktemp("image")
    try:
        yield build(folder)
    except NotPossible as reason:
        pytest.skip(str(reason))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Container:
    """One service on its volume; at most one process that is its first."""

    image: Stage
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None

    def __post_init__(self) -> None:
        # A new named volume begins as a copy of what the image has there, rights included.
        subprocess.run(["cp", "-a", self.image.path("/data"), self.data], check=True)
        self.secrets.mkdir(mode=0o700)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def add_secret(self, name: str, text: str) -> None:
        """As the comment at the top of docker-compose.yml says."""
        (self.secrets / name).write_text(text)
        (self.secrets / name).chmod(0o644)

    async def start(self) -> None:
        """`docker compose up`."""
        command = [*self.image.command("ENTRYPOINT"), *self.image.command("CMD")]
        with (self.folder / "log").open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *self._inside(command), stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output
            )

    async def run(self, *command: str) -> Ran:
        """`docker compose exec gateway …`."""
        began = clock.monotonic()
        process = await asyncio.create_subprocess_exec(
            *self._inside(list(command)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(30):
            out, err = await process.communicate()
        return Ran(await process.wait(), out.decode(), err.decode(), clock.monotonic() - began)

    async def healthy(self) -> bool:
        """What the engine makes of the health check."""
        options, _, command = self.image.said["HEALTHCHECK"].partition("CMD ")
        assert options
        return (await self.run(*json.loads(command))).code == 0

    async def become_healthy(self) -> None:
        """Wait for it, for as long as the engine overlooks failures."""
        async with asyncio.timeout(healthcheck()["start-period"]):
            while not await self.healthy():
                assert self.process is not None and self.process.returncode is None, self.log

    async def stop(self) -> int:
        """`docker compose stop`: the exit code; after the grace period an engine kills."""
        assert self.process is not None
        self.process.send_signal(getattr(signal, self.image.said["STOPSIGNAL"]))
        async with asyncio.timeout(seconds(GATEWAY["stop_grace_period"])):
            return await self.process.wait()

    def _inside(self, command: list[str]) -> list[str]:
        secrets = {str(file): f"/run/secrets/{file.name}" for file in self.secrets.iterdir()}
        for target in secrets.values():
            self.image.path(target).touch()
        binds = {str(self.data): "/data", **secrets}
        return inside(self.image, command, environment=self.environment, binds=binds, read_only=GATEWAY["read_only"])


def healthcheck() -> dict[str, float]:
    """The numbers of the Dockerfile's health check."""
    text = (ROOT / "Dockerfile").read_text()
    found = re.findall(r"--(interval|timeout|start-period)=(\S+)", text)
    return {name: seconds(value) for name, value in found}


def environment(**more: str) -> dict[str, str]:
    """What docker-compose.yml sets, with nothing in the caller's environment, and what a test adds."""
    given = {}
    for name, value in GATEWAY["environment"].items():
        if value is not None:
            given[name] = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value))
    return given | more


@asynccontextmanager
async def container(image: Stage, folder: Path, **more: str) -> AsyncIterator[Container]:
    """A container on a new volume, killed at the end if it still runs."""
    made = Container(image, folder, environment(**more))
    try:
        yield made
    finally:
        if made.process is not None and made.process.returncode is None:
            made.process.kill()
            await made.process.wait()


@pytest.mark.promise("P-container")
async def test_it_becomes_healthy_answers_runs_commands_and_ends_in_its_grace(image: Stage, tmp_path: Path) -> None:
    async with container(image, tmp_path) as gateway:
        await gateway.start()
        await gateway.become_healthy()
        hello = await gateway.run("goclaw", "send", "hello")
        assert hello.code == 0 and "You said: hello" in hello.out, hello.err
        listing = await gateway.run("goclaw", "send", '/tool exec {"command": "id -u; ls"}')
        assert "10001" in listing.out and "AGENTS.md" in listing.out, listing.out
        assert await gateway.stop() == 0
        assert not await gateway.healthy()
    assert "Traceback" not in gateway.log


@pytest.mark.promise("P-container")
async def test_nothing_outside_the_volume_can_be_written(image: Stage, tmp_path: Path) -> None:
    async with container(image, tmp_path) as gateway:
        tried = await gateway.run(
            "sh", "-c", "for place in / /app /app/bin /etc /run; do touch $place/x && echo $place; done"
        )
        assert tried.out == ""
        powers = await gateway.run("sh", "-c", "id -u; grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status")
        assert powers.out.split() == ["10001", "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]


@pytest.mark.long
@pytest.mark.sandbox
async def test_commands_run_in_the_broker_for_want_of_bubblewrap(image: Stage, tmp_path: Path) -> None:
    async with container(image, tmp_path) as gateway:
        found = json.loads((await gateway.run("goclaw", "doctor", "--json")).out)
        tiers = {finding["text"].split()[0]: finding["verdict"] for finding in found if finding["check"] == "exec"}
        assert tiers["broker"] == "ok", found
        assert tiers["bubblewrap"] == "warning"


@pytest.mark.long
async def test_the_token_is_read_from_its_file_and_telegram_is_answered(image: Stage, tmp_path: Path) -> None:
    async with (
        FakeTelegram() as telegram,
        container(image, tmp_path, GOCLAW_TELEGRAM__BASE_URL=telegram.base_url) as gateway,
    ):
        gateway.add_secret("telegram_token", telegram.token)
        users = gateway.data / "state" / "users.json"
        users.write_text(json.dumps({"users": {f"telegram:{ANN}": {"name": "Ann"}}}))
        users.chmod(0o644)
        await gateway.start()
        await gateway.become_healthy()
        shown = await gateway.run("goclaw", "config", "show")
        assert "/run/secrets/telegram_token" in shown.out
        await telegram.world.say("hello", user=ANN)
        assert "You said: hello" in (await telegram.wait_sent(ANN))[0].text
        assert await gateway.stop() == 0
        assert telegram.token not in gateway.log + shown.out


@pytest.mark.long
async def test_without_a_token_it_runs_without_telegram(image: Stage, tmp_path: Path) -> None:
    async with container(image, tmp_path) as gateway:
        gateway.add_secret("telegram_token", "")
        await gateway.start()
        await gateway.become_healthy()
        assert "  Telegram: not connected" in (await gateway.run("goclaw", "status")).out
        assert await gateway.stop() == 0


@pytest.mark.long
async def test_a_new_container_on_the_same_volume_goes_on(image: Stage, tmp_path: Path) -> None:
    """An upgrade, or `docker compose up` after a change."""
    async with container(image, tmp_path) as gateway:
        await gateway.start()
        await gateway.become_healthy()
        await gateway.run("goclaw", "send", "remember me")
        assert gateway.process is not None
        gateway.process.kill()
        await gateway.process.wait()
        await gateway.start()
        await gateway.become_healthy()
        numbers = json.loads((await gateway.run("goclaw", "status", "--json")).out)
        assert numbers["messages"] == 2
        made = await gateway.run("goclaw", "backup", "/data/backup.tar.gz")
        assert made.code == 0, made.err
        assert await gateway.stop() == 0
        restored = await gateway.run("goclaw", "restore", "/data/backup.tar.gz")
        assert restored.code == 0, restored.err
        assert (gateway.data / "workspace" / "AGENTS.md").exists()


@pytest.mark.long
async def test_a_volume_of_somebody_else_is_refused_in_words(image: Stage, tmp_path: Path) -> None:
    """A folder of the host that was mounted without `chown 10001`."""
    async with container(image, tmp_path) as gateway:
        for path in (gateway.data, gateway.data / "state"):
            os.chown(path, 0, 0)
            path.chmod(0o755)
        done = await gateway.run("goclaw", "gateway")
        assert done.code == 1
        assert "/data/state" in done.err and "Permission denied" in done.err
        assert "Traceback" not in done.err and "unexpected" not in done.err


@pytest.mark.long
async def test_a_health_check_costs_little(image: Stage, tmp_path: Path) -> None:
    async with container(image, tmp_path) as gateway:
        await gateway.start()
        await gateway.become_healthy()
        best = min([(await gateway.run("goclaw", "status")).seconds for _ in range(3)])
        peak = await gateway.run(
            "python",
            "-c",
            "import resource, subprocess; subprocess.run(['goclaw', 'status'], stdout=subprocess.DEVNULL);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)",
        )
        assert int(peak.out) < STATUS_MEGABYTES
        assert best * 5 < healthcheck()["timeout"] < healthcheck()["interval"]
        assert await gateway.stop() == 0


def test_the_service_is_hardened_and_keeps_its_data() -> None:
    assert GATEWAY["read_only"] is True
    assert GATEWAY["cap_drop"] == ["ALL"]
    assert GATEWAY["security_opt"] == ["no-new-privileges:true"]
    assert GATEWAY["init"] is True, "somebody must reap what commands leave behind"
    assert GATEWAY["volumes"] == ["data:/data"] and "data" in COMPOSE["volumes"]
    assert "ports" not in GATEWAY


def test_secrets_come_as_files_and_never_as_values() -> None:
    for name in GATEWAY["secrets"]:
        assert COMPOSE["secrets"][name]["file"].startswith("./secrets/")
    keys = {name: value for name, value in GATEWAY["environment"].items() if name.endswith(("_KEY", "_TOKEN"))}
    assert set(keys.values()) == {None}


def test_the_daemon_has_the_time_that_it_needs_to_end() -> None:
    assert seconds(GATEWAY["stop_grace_period"]) > 2 * GRACE_SECONDS


def test_the_gateway_finds_its_models_and_nobody_else_does() -> None:
    assert GATEWAY["environment"]["OLLAMA_HOST"] == "http://ollama:11434"
    assert "ports" not in OLLAMA
    (volume,) = OLLAMA["volumes"]
    name, _, place = volume.partition(":")
    assert name in COMPOSE["volumes"]
    assert OLLAMA["environment"]["OLLAMA_MODELS"] == place


def test_the_model_server_is_a_choice_and_is_waited_for_where_it_was_made() -> None:
    """Without `required: false` an engine refuses to start the gateway alone."""
    assert OLLAMA["profiles"] == ["ollama"] and "profiles" not in GATEWAY
    assert GATEWAY["depends_on"] == {"ollama": {"condition": "service_healthy", "required": False}}
    assert OLLAMA["healthcheck"]["test"][:2] == ["CMD", "ollama"]


@pytest.mark.promise("P-container")
async def test_the_first_commands_of_the_compose_file_make_an_admin(image: Stage, tmp_path: Path) -> None:
    header = (ROOT / "docker-compose.yml").read_text().partition("\nname:")[0]
    (command,) = re.findall(r"docker compose exec gateway (goclaw users .*)", header)
    async with container(image, tmp_path) as gateway:
        added = await gateway.run(*command.replace("<your numeric id>", str(ANN)).split())
        assert added.code == 0, added.err
        entry = json.loads((gateway.data / "state" / "users.json").read_text())["users"][f"telegram:{ANN}"]
        assert entry["roles"] == ["admin"]


def memory_of(process: asyncio.subprocess.Process) -> int:
    """Resident bytes."""
    return int(psutil.Process(process.pid).memory_info().rss)


@pytest.mark.long
async def test_the_memory_limit_is_far_from_what_it_needs(image: Stage, tmp_path: Path) -> None:
    limit: Any = GATEWAY["deploy"]["resources"]["limits"]["memory"]
    async with container(image, tmp_path) as gateway:
        await gateway.start()
        await gateway.become_healthy()
        assert gateway.process is not None
        process = gateway.process
        await eventually(lambda: memory_of(process))
        assert memory_of(process) * 5 < int(limit.removesuffix("g")) << 30
        assert await gateway.stop() == 0

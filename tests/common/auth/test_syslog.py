"""`audit.sink: syslog`: each line also goes there, and the daemon goes on when it is not there or takes nothing."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import ValidationError

from goclaw.common.auth.audit import AuditEntry, audit_path, open_audit
from goclaw.common.auth.syslog import Syslog
from goclaw.common.config.policies import AuditSettings
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.testing import SteppedClock

ENTRY = AuditEntry("tool.use", "exec", Actor("telegram:5", "telegram"), result="ok")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[socket.socket]:
    """A syslog service that listens, and reads what the test reads."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "log"))
        listening.settimeout(5)
        yield listening


def settings(address: object) -> AuditSettings:
    return AuditSettings.model_validate({"sink": "syslog", "syslog": str(address)})


async def test_each_line_of_the_file_also_goes_to_syslog(tmp_path: Path, service: socket.socket) -> None:
    config = Config(state_dir=tmp_path / "state", audit=settings(tmp_path / "log"))
    async with open_audit(config, SteppedClock()) as audit:
        audit.record(ENTRY)
        audit.record(ENTRY)
    lines = audit_path(config).read_bytes().splitlines()
    assert [service.recv(9_999) for _ in lines] == [b"<86>goclaw-audit: " + line for line in lines]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_a_service_on_another_machine_is_reached_by_udp(host: str) -> None:
    family = socket.AF_INET6 if "[" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as listening:
        try:
            listening.bind((host.strip("[]"), 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        listening.settimeout(5)
        Syslog(f"{host}:{listening.getsockname()[1]}").send([b'{"n":1}\n'])
        assert listening.recv(999) == b'<86>goclaw-audit: {"n":1}'


async def test_without_a_service_the_file_is_written_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(state_dir=tmp_path / "state", audit=settings(tmp_path / "nothing"))
    async with open_audit(config, SteppedClock()) as audit:
        for _ in range(3):
            audit.record(ENTRY)
            await audit.flush()
    assert audit_path(config).read_bytes().count(b"\n") == 3
    assert caplog.text.count("cannot be sent to syslog") == 1


def test_a_service_that_takes_nothing_holds_nobody_up(
    tmp_path: Path, service: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    syslog = Syslog(str(tmp_path / "log"))
    syslog.send([b"x" * 1_000] * 5_000)  # more than its queue takes
    assert "cannot be sent" in caplog.text
    service.setblocking(False)
    with suppress(BlockingIOError):
        while service.recv(9_999):
            pass
    syslog.send([b"y"])
    assert service.recv(99).endswith(b": y") and "can be sent to syslog again" in caplog.text


@pytest.mark.parametrize("address", ["", "log", "localhost:514", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:x", "::1:514x"])
def test_an_address_that_leads_nowhere_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="should be the path of a socket"):
        settings(address)

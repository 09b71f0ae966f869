"""No error is lost: what nobody took is logged with its stack, and counted in the status."""

import asyncio
import gc

import pytest

from goclaw.common.core.clock import RealClock
from goclaw.common.health.vitals import open_vitals


async def fail() -> None:
    raise ValueError("secret-in-a-value")


async def test_an_exception_that_nobody_asked_for_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async with open_vitals(RealClock(), {}) as vitals:
        assert "Unhandled errors" not in vitals.lines()
        forgotten = asyncio.create_task(fail(), name="forgotten")
        await asyncio.wait({forgotten})
        del forgotten
        gc.collect()
        assert vitals.lines()["Unhandled errors"] == "1 since the start; the log has them"
    (record,) = [record for record in caplog.records if "nobody handled this" in record.message]
    assert record.levelname == "ERROR" and "forgotten" in record.message and "ValueError" in record.message
    assert "in fail" in record.__dict__["stack"] and "secret" not in record.message


async def test_a_callback_that_fails_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async with open_vitals(RealClock(), {}) as vitals:
        called = asyncio.Event()

        def callback() -> None:
            called.set()
            raise KeyError("x")

        asyncio.get_running_loop().call_soon(callback)
        await called.wait()
        assert vitals.lines()["Unhandled errors"].startswith("1 ")
    assert "nobody handled this" in caplog.text


async def test_an_exception_that_somebody_took_is_nobodys_business(caplog: pytest.LogCaptureFixture) -> None:
    async with open_vitals(RealClock(), {}) as vitals:
        with pytest.raises(ValueError, match="secret"):
            await asyncio.create_task(fail())
        gc.collect()
        assert "Unhandled errors" not in vitals.lines()
    assert caplog.records == []

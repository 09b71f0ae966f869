"""A stage for clients, and what makes them quick: waits that are for people and for networks last milliseconds."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from textual._compositor import Compositor
from textual.app import App

from goclaw.clients.tui import link
from goclaw.clients.tui.widgets import conversation, panels
from goclaw.common.core.clock import SteppedClock
from tests.clients.tui.fake_daemon import FakeGateway, Stage
from tests.clients.tui.screen import OFTEN_SECONDS, SOON_SECONDS


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def stage(tmp_path: Path, clock: SteppedClock) -> Stage:
    return Stage(tmp_path, clock)


@pytest.fixture
async def daemon(stage: Stage) -> AsyncIterator[FakeGateway]:
    async with stage.daemon() as gateway:
        yield gateway


@pytest.fixture(autouse=True)
def quick_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that comes back at once, and looks many times a second at what it looks at again and again."""
    monkeypatch.setattr(link, "RETRY_SECONDS", SOON_SECONDS)
    monkeypatch.setattr(conversation, "LOOK_SECONDS", SOON_SECONDS)
    monkeypatch.setattr(panels, "LOG_LOOK_SECONDS", OFTEN_SECONDS)


@pytest.fixture(autouse=True)
def screens_are_marked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running App is dear: only tests that are marked, and so counted, may have one."""
    if request.node.get_closest_marker("screen") is None:
        monkeypatch.setattr(App, "run_test", _refuse)


def _refuse(app: App[Any], **given: Any) -> None:
    pytest.fail("a test with a running App is marked: pytest.mark.screen; most need none (tests/clients/tui/unseen.py)")


@pytest.fixture(autouse=True)
def pictures_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw only what a test looks at (`text_of`): an App without a terminal throws every other picture away."""
    draw = Compositor.render_update

    def render_update(self: Compositor, full: bool = False, **given: Any) -> Any:
        if full:
            return draw(self, full, **given)
        self._dirty_regions.clear()
        return None

    monkeypatch.setattr(Compositor, "render_update", render_update)

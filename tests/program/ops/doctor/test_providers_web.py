"""The doctor searches once, and says what came of it."""

import pytest

from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config
from goclaw.program.ops.doctor.providers import check_web_search
from tests.common.net.search.fake_server import KEY, FakeSearch, fake_search


def loaded(fake: FakeSearch | None = None) -> Loaded:
    found = {"provider": fake.name, "url": fake.url, "api_key": KEY} if fake else {}
    return Loaded(Config.model_validate({"tools": {"web_search": found}}), None, (), ())


@pytest.mark.parametrize(
    ("status", "pages", "verdict", "said"),
    [
        (200, True, "ok", "brave answers"),
        (200, False, "warning", "finds nothing"),
        (401, True, "problem", "refused the search"),
        (429, True, "problem", "no more searches now"),
    ],
)
async def test_a_configured_provider_is_tried(status: int, pages: bool, verdict: str, said: str) -> None:
    async with fake_search("brave") as fake:
        fake.status, fake.found = status, fake.found if pages else []
        (finding,) = await check_web_search(loaded(fake))
    assert finding.verdict == verdict and said in finding.text
    assert KEY not in finding.line()


async def test_without_one_it_says_how_to_turn_it_on() -> None:
    (finding,) = await check_web_search(loaded())
    assert finding.verdict == "ok" and "tools.web_search.provider" in finding.remedy

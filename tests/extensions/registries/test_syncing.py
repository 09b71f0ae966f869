"""Catalogues that are fetched again and again: what of them is taken over, and what becomes of those that fail."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from goclaw.common.config.registries import FederationSettings
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.extensions.registries.base import RegistryError
from goclaw.extensions.registries.syncing import FAILED_PAUSE, ID, MAX_PAUSE, SYNCING, chooser, problem_of, sync_forever
from tests.acceptance.waiting import eventually
from tests.extensions.registries.fake_registry import TOKEN, Asking, asking, fake_registry, item, toolset


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asking]:
    async with fake_registry(toolset(), toolset("notes")) as registry, asking(tmp_path, registry) as made:
        yield made


async def test_a_catalogue_is_taken_over_and_what_is_not_listed_any_more_goes(asked: Asking) -> None:
    assert (await asked.sync()).entries == 2
    assert asked.kept() == ["data-tools 1.0.0", "notes 1.0.0"]
    asked.registry.items = [item(toolset(version="1.1.0"))]
    await asked.sync()
    assert asked.kept() == ["data-tools 1.1.0"]
    sync = asked.shelf.sync("corp")
    assert (sync.synced_at, sync.problem) == (asked.clock.now(), "")


@pytest.mark.parametrize(
    ("include", "exclude", "kept"),
    [
        ((), (), ["data-tools", "data-test", "io.github.ann/x", "notes"]),
        (("data-*",), (), ["data-tools", "data-test"]),
        ((), ("data-*",), ["io.github.ann/x", "notes"]),
        (("data-*", "notes"), ("*-test",), ["data-tools", "notes"]),
        (("io.github.ann/*",), (), ["io.github.ann/x"]),
        (("DATA-*",), (), []),
    ],
)
def test_the_patterns_choose_names(include: tuple[str, ...], exclude: tuple[str, ...], kept: list[str]) -> None:
    wanted = chooser(FederationSettings(include=include, exclude=exclude))
    assert [name for name in ("data-tools", "data-test", "io.github.ann/x", "notes") if wanted(name)] == kept


async def test_only_what_the_patterns_choose_is_kept(asked: Asking) -> None:
    await asked.sync(federation={"include": ["data-*"]})
    assert asked.kept() == ["data-tools 1.0.0"]


async def test_nothing_is_fetched_again_that_has_not_changed_unless_other_patterns_count(asked: Asking) -> None:
    asked.registry.etag = '"7"'
    await asked.sync()
    asked.clock.advance(60)
    assert (await asked.sync()).entries == 2
    assert [request.headers.get("If-None-Match") for request in asked.registry.asked] == [None, '"7"']
    assert asked.shelf.sync("corp").synced_at == asked.clock.now()
    await asked.sync(federation={"exclude": ["notes"]})
    assert asked.registry.asked[-1].headers.get("If-None-Match") is None and asked.kept() == ["data-tools 1.0.0"]


async def test_what_came_through_this_gateway_is_not_taken_over_again(asked: Asking) -> None:
    own = asked.shelf.fact(ID, "this-gateway")
    asked.registry.items = [item(toolset(), via=["other", own]), item(toolset("notes"), via=["other"])]
    await asked.sync()
    assert asked.kept() == ["notes 1.0.0"]
    assert asked.shelf.entries("corp")[0].via == ("other", "fake")
    asked.registry.id = own  # the gateway's own registry
    await asked.sync()
    assert asked.kept() == []


async def test_a_version_that_changes_is_refused_and_the_old_one_stays_and_somebody_is_told(asked: Asking) -> None:
    asked.registry.etag = '"1"'
    await asked.sync()
    before = asked.shelf.entries("corp")[0].sha256
    asked.registry.items[0], asked.registry.etag = item(toolset(description="Other words.")), '"2"'
    for _ in range(2):  # also the second time: it is asked for everything until that is settled
        taken = await asked.sync()
        assert "toolset data-tools 1.0.0 is not what it was" in taken.changed[0]
        assert asked.shelf.entries("corp")[0].sha256 == before
        assert "What was fetched first stays in use" in asked.shelf.sync("corp").problem
    assert asked.shelf.sync("corp").synced_at == asked.clock.now()
    asked.registry.items[0] = item(toolset())
    assert problem_of(await asked.sync()) == "" and asked.shelf.sync("corp").problem == ""


async def test_what_is_listed_twice_counts_once(asked: Asking) -> None:
    asked.registry.items *= 2
    taken = await asked.sync()
    assert taken.entries == 2 and [line.endswith("is listed twice") for line in taken.refused] == [True, True]


async def test_what_was_fetched_stays_when_the_registry_fails(asked: Asking) -> None:
    await asked.sync()
    synced = asked.clock.now()
    asked.registry.instead = [web.json_response({"error": TOKEN}, status=403)]
    with pytest.raises(RegistryError):
        await asked.sync()
    assert len(asked.kept()) == 2
    sync = asked.shelf.sync("corp")
    assert sync.synced_at == synced and "HTTP 403" in sync.problem and TOKEN not in sync.problem


class Told(list[tuple[str, str, bool]]):
    """What somebody was told."""

    def __call__(self, registry: str, problem: str, *, changed: bool) -> None:
        self.append((registry, problem, changed))


async def rounds(asked: Asking, told: Told, number: int, **settings: Any) -> list[float]:
    """The pauses between so many fetches."""
    corp = asked.registry.settings(**settings)
    work = sync_forever("corp", corp, asked.shelf, http=asked.http, clock=asked.clock, tell=told)
    async with background(work, "keeping"):
        await eventually(lambda: len(told) >= number)
    return asked.clock.pauses[: number - 1]


async def test_it_is_fetched_every_sync_interval(asked: Asking) -> None:
    told = Told()
    assert await rounds(asked, told, 3, sync_interval="10m") == [600, 600]
    assert told[:3] == [("corp", "", False)] * 3


async def test_a_fetch_that_failed_is_made_again_sooner_and_told_each_time(asked: Asking) -> None:
    told = Told()
    asked.registry.instead = [web.Response(status=404), web.Response(status=404)]
    assert await rounds(asked, told, 3, sync_interval="1d") == [FAILED_PAUSE, FAILED_PAUSE]
    assert [bool(problem) for _, problem, _ in told[:3]] == [True, True, False]


async def test_a_registry_that_wants_to_be_left_alone_is(asked: Asking) -> None:
    told = Told()
    asked.registry.instead = [
        web.Response(status=429, headers={"Retry-After": "4000"}),
        web.Response(status=429, headers={"Retry-After": "9999999"}),
    ]
    assert await rounds(asked, told, 3) == [4000, MAX_PAUSE]


async def test_a_changed_version_is_told_as_such(asked: Asking) -> None:
    await asked.sync()
    asked.registry.items[0] = item(toolset(description="Other words."))
    told = Told()
    await rounds(asked, told, 1)
    [(_, problem, changed), *_] = told
    assert changed and "is not what it was" in problem


async def test_many_changes_are_told_in_few_words(asked: Asking) -> None:
    asked.registry.items = [item(toolset(version=f"1.0.{n}")) for n in range(9)]
    await asked.sync()
    asked.registry.items = [item(toolset(version=f"1.0.{n}", description="x")) for n in range(9)]
    assert "and 6 more. What was fetched first" in problem_of(await asked.sync())


async def test_a_registry_that_says_nothing_holds_up_no_other(asked: Asking) -> None:
    silent, told = asyncio.Event(), Told()
    async with fake_registry(instead=[silent]) as other:
        both = {"quiet": other.settings(), "corp": asked.registry.settings()}
        work = partial(SYNCING.run, both, asked.state, http=asked.http, clock=asked.clock, tell=told)
        async with background(run_with_restarts("both", work, asked.clock), "keeping both"):
            await eventually(lambda: told)
        assert {registry for registry, _, _ in told} == {"corp"} and len(asked.kept()) == 2
        silent.set()

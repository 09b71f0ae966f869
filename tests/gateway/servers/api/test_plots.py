"""Plots: pictures that are valid, say what they show, and contain no markup of others."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.supervise import background
from goclaw.common.health.samples import EVERY_SECONDS, MAX_SAMPLES, Samples, resident_megabytes
from goclaw.gateway.servers.api import plots
from goclaw.gateway.servers.api.plots import MAX_BARS, PlotWords, columns, count, dollars, line, milliseconds, rows
from tests.gateway.servers.api.calling import service, world_with
from tests.gateway.servers.calling import ANN, BOB
from tests.gateway.servers.web.hostile_texts import SCRIPTS
from tests.harness import Answer, before_the_next_look

NAMESPACE = "{http://www.w3.org/2000/svg}"
ALLOWED = {"svg", "title", "desc", "text", "rect", "line", "polygon", "polyline", "circle"}
WORDS = PlotWords("Cost by model", "What models cost.", dollars)


def read(svg: str) -> ET.Element:
    """The picture; its elements and attributes are those that no browser runs."""
    root = ET.fromstring(svg)  # noqa: S314 - our own
    for element in root.iter():
        assert element.tag.removeprefix(NAMESPACE) in ALLOWED
        for name in element.attrib:
            assert not name.startswith("on") and "href" not in name and name != "style"
    return root


def texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{NAMESPACE}text")]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_plot_has_a_title_for_screen_readers_and_ticks_for_all_others(theme: plots.Theme) -> None:
    root = read(columns(WORDS, [(f"2026-11-{day:02}", day * 0.1) for day in range(1, 31)], theme))
    assert root.attrib["role"] == "img" and root.attrib["aria-labelledby"] == "title description"
    assert root[0].text == "Cost by model" and root[1].text == "What models cost."
    assert {"$0.00", "$1.00", "$2.00", "$3.00", "$4.00", "11-01"} <= set(texts(root))
    assert len(list(root.iter(f"{NAMESPACE}rect"))) == 30


def test_no_name_becomes_markup() -> None:
    for script in SCRIPTS:
        hostile = PlotWords(script, script, dollars)
        for svg in (rows(hostile, [(script, 1.0)], "light"), columns(hostile, [(script, 1.0)], "dark")):
            read(svg)


def test_many_bars_are_some_and_the_others() -> None:
    root = read(rows(WORDS, [(f"model {at}", 30.0 - at) for at in range(20)], "light"))
    assert texts(root).count("others") == 1 and len(list(root.iter(f"{NAMESPACE}rect"))) == MAX_BARS + 1
    assert "(forgotten)" in texts(read(rows(WORDS, [("", 1.0)], "light")))


def test_a_plot_of_nothing_says_so() -> None:
    for svg in (rows(WORDS, [], "light"), columns(WORDS, [("2026-11-01", 0.0)], "light"), line(WORDS, [], "dark")):
        assert "nothing yet" in texts(read(svg))


def test_a_line_over_an_hour_names_its_times() -> None:
    words = PlotWords("Delay", "", milliseconds)
    root = read(line(words, [(30.0 * at, float(at % 7)) for at in range(121)], "light"))
    assert {"00:00", "00:30", "01:00", "0 ms", "8 ms"} <= set(texts(root))


def test_a_single_sample_is_a_picture_too() -> None:
    read(line(WORDS, [(1.0, 2.0)], "light"))


def test_numbers_are_short() -> None:
    assert [count(value) for value in (0, 7, 1_200, 3_400_000, 5e9)] == ["0", "7", "1.2k", "3.4M", "5G"]
    assert [dollars(value) for value in (0, 0.004, 1.5, 1_234)] == ["$0.00", "$0.0040", "$1.50", "$1,234"]


async def test_usage_is_plotted_for_oneself_and_for_admins(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Hi."), users=(ANN, User(BOB.key, "Bob", roles=frozenset({"admin"}))))
    async with world.running() as core, service(world, core) as served:
        await served.say("Hello")
        await core.settled()
        for by in ("day", "model", "person"):
            for of in ("cost", "tokens"):
                answer = await served.get(f"/usage/plot?by={by}&of={of}&days=7&theme=dark")
                assert answer.status == 200 and answer.headers["Content-Type"] == "image/svg+xml"
                assert answer.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
                read(answer.said)
        assert (await served.get("/usage/plot?everybody=true")).status == 403
        assert (await served.get("/usage/plot?everybody=true", user=BOB.key)).status == 200
        assert (await served.get("/usage/plot?by=session")).status == 400
        assert (await served.get("/usage/plot?days=99999")).status == 400


async def test_status_is_plotted_for_admins_where_samples_are_taken(tmp_path: Path) -> None:
    world = world_with(tmp_path, users=(ANN, User(BOB.key, "Bob", roles=frozenset({"admin"}))))
    async with world.running() as core, service(world, core) as served:
        assert (await served.get("/status/plot")).status == 403
        assert (await served.get("/status/plot", user=BOB.key)).status == 409


async def test_samples_are_those_of_the_last_hour(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    taken = iter(range(1_000))
    samples = Samples(world.clock, lambda: {"turns": float(next(taken)), "memory": resident_megabytes()})
    async with background(samples.run(), "samples"):
        while len(samples.of("turns")) < MAX_SAMPLES or samples.of("turns")[0][1] < 3:
            world.clock.advance(EVERY_SECONDS)
            await before_the_next_look()
    values = samples.of("turns")
    assert len(values) == MAX_SAMPLES and values[-1][0] - values[-2][0] == EVERY_SECONDS
    assert samples.of("memory")[0][1] > 10 and samples.of("unknown") == []

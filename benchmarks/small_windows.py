"""A conversation with a model in a small window, whose server counts by a real tokenizer and cuts what is too much.

The scene and the server are those of the tests (`tests.conversation.sessions.small_windows`), which count by a rule of
thumb.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.estimates import MARKS
from benchmarks.figures import Figure, Json, Options
from benchmarks.real_tokenizers import TokenizersMissing, counter
from tests.conversation.sessions.small_windows import FEWEST_BETWEEN, MOST_BREAKS, TURNS, Lived, live


async def measure_small_windows(options: Options) -> list[Figure]:
    """The worst of all tokenizers in each window, with each one's own in the detail; nothing where there are none."""
    found: dict[int, dict[str, Lived]] = {window: {} for window in MOST_BREAKS}
    try:
        for name in list(MARKS)[:: 3 if options.quick else 1]:
            with await counter(name) as count:
                for window, lived in found.items():
                    with tempfile.TemporaryDirectory(prefix="goclaw-window-") as folder:
                        lived[name] = await live(Path(folder), window, count)
    except TokenizersMissing as error:
        print(f"left out, the real tokenizers cannot be had here: {error}")
        return []
    return [figure for window, lived in found.items() for figure in figures(window, lived)]


def figures(window: int, found: Mapping[str, Lived]) -> list[Figure]:
    """What became of the conversation in one window."""

    def worst(what: str, unit: str, of: Callable[[Lived], float], target: float) -> Figure:
        return Figure(f"{TURNS} turns in {window:,} tokens: {what}", unit, max(map(of, found.values())), target)

    detail = {name: told(lived) for name, lived in found.items()}
    return [
        Figure(
            f"{TURNS} turns in {window:,} tokens: not answered",
            "turns",
            max(lived.failed for lived in found.values()),
            0,
            detail={"tokenizers": detail},
        ),
        worst("largest request and its answer", "tokens", lambda lived: lived.largest, window),
        worst("requests that the server cut", "", lambda lived: sum(each.cut for each in lived.asked), 0),
        worst("requests that a person waited for beside the turn's", "", lambda lived: len(lived.waited_for), 0),
        worst("requests beside the turns", "", lambda lived: len(lived.beside), TURNS // FEWEST_BETWEEN),
        worst("turns missing between two of them", "", lambda lived: lived.crowded, 0),
        worst("read anew by the server", "", lambda lived: len(lived.breaks), MOST_BREAKS[window]),
    ]


def told(lived: Lived) -> Json:
    """What one tokenizer made of it."""
    return {
        "first": lived.own[0].tokens,
        "largest": lived.largest,
        "beside": lived.beside,
        "anew": lived.breaks,
        "compactions": lived.compactions,
    }

"""The order of files in `search`: by the kind their suffix names, then the one with most matches first."""

import json
import logging
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

log = logging.getLogger(__name__)

NAME = "search_priority.json"
"""The built-in list beside this file, and in the state folder the operator's own: kinds in order, each with endings."""
_MAX_BYTES = 1 << 20


def ordered(counts: Mapping[str, int], state: Path) -> list[str]:
    """Return the paths in display order, from the number of matches in each; blocks."""
    places = _tiers(state)
    return sorted(counts, key=lambda path: (_place_of(path, places), -counts[path], path))


def _tiers(state: Path) -> Mapping[str, int]:
    """Return the rank of each suffix's kind, the first to be shown first.

    What the operator's file says of an ending counts before the built-in list. A file that makes no sense counts for
    nothing, and the log says so.
    """
    built_in = _places(json.loads(files("goclaw.tools").joinpath(NAME).read_text("utf-8")))
    own = state / NAME
    try:
        with own.open("rb") as file:
            return {**built_in, **_places(json.loads(file.read(_MAX_BYTES)))}
    except FileNotFoundError:
        return built_in
    except (OSError, ValueError) as error:
        log.warning("%s is not used: %s", own, error)
        return built_in


def _places(kinds: Any) -> dict[str, int]:
    if not isinstance(kinds, dict) or not all(
        isinstance(endings, list) and all(isinstance(ending, str) for ending in endings) for endings in kinds.values()
    ):
        raise ValueError('expected {"kind": ["ending", …], …}, the kind to be shown first first')
    return {ending.lstrip(".").lower(): place for place, endings in enumerate(kinds.values()) for ending in endings}


def _place_of(path: str, places: Mapping[str, int]) -> int:
    """Return the rank of a file; one of an unknown kind comes before the last kind only."""
    ending = PurePosixPath(path).suffix.lstrip(".").lower()
    return places.get(ending, max(places.values(), default=0) - 1)

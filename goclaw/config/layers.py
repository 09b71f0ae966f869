"""Settings of one source, and merging of sources."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goclaw.config.keys import Loc, child_kind, entry_kind, form_of, is_list, is_mapping, is_secret
from goclaw.config.report import problem_line
from goclaw.config.schema import Config


@dataclass(slots=True)
class Layer:
    """Settings of one source. `places` has the words for each location: `config.yaml:5:3`, `env GOCLAW_HTTP__PORT`."""

    values: dict[str, Any] = field(default_factory=dict, repr=False)
    places: dict[Loc, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def set(self, path: tuple[str, ...], value: Any, place: str) -> None:
        """Put a value in; a mapping adds to what is there."""
        inner = self.values
        for name in path[:-1]:
            following = inner.setdefault(name, {})
            if not isinstance(following, dict):
                following = inner[name] = {}
            inner = following
        before = inner.get(path[-1])
        inner[path[-1]] = merged([before, value]) if isinstance(before, dict) and isinstance(value, dict) else value
        self._mark(path, value, place)

    def set_text(self, path: tuple[str, ...], text: str, place: str) -> None:
        """Put in a value that came as text: JSON for mappings, JSON or commas for lists, else as it is."""
        kind = key_kind(path)
        value: Any = text
        either = entry_kind(form_of(kind, dict)) is not None and text.startswith("{")
        if is_mapping(kind) or either or (is_list(kind) and text.startswith("[")):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                wanted = "JSON, like {…}" if is_mapping(kind) else "a JSON list, or names with commas between"
                self.problems.append(problem_line(place, path, f"should be {wanted}"))
                return
        self.set(path, value, place)

    def _mark(self, loc: Loc, value: Any, place: str) -> None:
        self.places[loc] = place
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for name, inner in inside:
            self._mark((*loc, name), inner, place)


def merged(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge mappings: later ones win, nested mappings are merged, lists are replaced."""
    result: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            before = result.get(name)
            mappings = isinstance(before, dict) and isinstance(value, dict)
            result[name] = merged([before or {}, value]) if mappings else value
    return result


def holds_secret(layer: Layer) -> bool:
    """Whether the layer sets a value that must stay secret."""
    return any(is_secret(key_kind(tuple(map(str, loc)))) for loc in layer.places)


def key_kind(path: tuple[str, ...]) -> Any:
    """Return the type of the key at `path`; None when there is no such key."""
    kind: Any = Config
    for name in path:
        kind = child_kind(kind, name)
    return kind

"""Selections of tools: names, `tag:x`, `set:y`, and the same with `-` before it to leave something out.

What picks is anything but `-…`; without such a part everything is picked that nothing leaves out. An empty selection
picks nothing. Pure: which tools there are, and which tags they carry, is for the caller to know.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from goclaw.common.core.catalog import ALIASES
from goclaw.common.core.records import record
from goclaw.common.core.tool_ids import local_id, short_name

TAG, SET, NOT = "tag:", "set:", "-"

Tags = Callable[[], frozenset[str] | None]
"""The tags of the tool in question; None for an unknown tool."""


@record
class Toolset:
    """A named group of tools, to be selected as `set:name`."""

    name: str
    description: str
    tools: tuple[str, ...]
    """A selection."""


BUILT_IN = (
    Toolset("filesystem", "Reading, searching and changing files of the workspace.", ("tag:filesystem",)),
    Toolset("shell", "Running commands.", ("tag:shell",)),
    Toolset("memory", "Searching and keeping notes.", ("tag:memory",)),
    Toolset("conversation", "Messages, questions and the list of what is to be done.", ("tag:conversation",)),
    Toolset("network", "Reaching the world outside.", ("tag:network",)),
    Toolset("notebook", "Notebooks of the workspace.", ("tag:notebook",)),
    Toolset("agents", "Handing work to other agents.", ("tag:agents",)),
    Toolset("index", "Finding and running tools that are not in a request.", ("tag:index",)),
)
"""The toolsets that are there without configuration. None names another set."""


class Toolsets:
    """All sets by name: the built-in ones and those of `tools.sets`."""

    def __init__(
        self, configured: Mapping[str, Sequence[str]] | None = None, find_id: Callable[[str], str] = lambda name: ""
    ) -> None:
        """`find_id`: returns the id of the tool of that name, so that no other is allowed by it; empty: none has it."""
        self._find_id = find_id
        self._sets = {each.name: each.tools for each in BUILT_IN} | {
            name: tuple(parts) for name, parts in (configured or {}).items()
        }

    @property
    def names(self) -> list[str]:
        """Every set that there is."""
        return sorted(self._sets)

    def picks(self, selection: Sequence[str], name: str, tags: Tags, *, unknown: bool = False) -> bool:
        """Whether `selection` picks the tool.

        Args:
            selection: as described above.
            name: the tool's id.
            tags: asked only where a tag decides.
            unknown: what to answer where a part cannot be judged, because there is no such set or the tool's tags are
                unknown: False for what allows, True for what restricts, so that doubt never widens anything.
        """
        return self._picks(tuple(selection), name, tags, unknown, ())

    def _picks(self, selection: tuple[str, ...], name: str, tags: Tags, unknown: bool, within: tuple[str, ...]) -> bool:
        wanted, unwanted = parse(selection)
        if not wanted and not unwanted:
            return False
        if wanted and not any(self._is(part, name, tags, unknown, within) for part in wanted):
            return False
        return not any(self._is(part, name, tags, not unknown, within) for part in unwanted)

    def _is(self, part: str, name: str, tags: Tags, unknown: bool, within: tuple[str, ...]) -> bool:
        if part.startswith(TAG):
            known = tags()
            return unknown if known is None else part.removeprefix(TAG) in known
        if not part.startswith(SET):
            own = local_id(within[-1], part) if within else ""
            if own and self._find_id(own):
                return name == own
            # A name of another system, or one without agent and set, leaves its tool out in any case; it allows it
            # unless another tool is really called so.
            stands_for = ALIASES.get(part) == name or short_name(name) == part
            return part == name or (stands_for and (unknown or self._find_id(part) in ("", name)))
        chosen = part.removeprefix(SET)
        if chosen not in self._sets or chosen in within:  # a set within itself: refused by the configuration
            return unknown
        return self._picks(self._sets[chosen], name, tags, unknown, (*within, chosen))


@lru_cache(maxsize=512)
def parse(selection: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a selection into its inclusions and its exclusions (without the `-`)."""
    return (
        tuple(part for part in selection if not part.startswith(NOT)),
        tuple(part.removeprefix(NOT) for part in selection if part.startswith(NOT)),
    )


def find_fault(selection: Sequence[str]) -> str | None:
    """Describe the fault in the form of a selection; None: the form is right."""
    for part in selection:
        rest = part.removeprefix(NOT)
        if not rest or rest in (TAG, SET) or rest != rest.strip() or rest.startswith(NOT):
            return f"`{part}` should be a tool's name, `tag:x` or `set:y`, each also with one `-` before it"
    return None


def cycle(sets: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the first chain of sets that comes back to its beginning; empty: none does."""
    done: set[str] = set()

    def follow(name: str, path: tuple[str, ...]) -> tuple[str, ...]:
        if name in path:
            return (*path[path.index(name) :], name)
        if name in done or name not in sets:
            return ()
        for part in sets[name]:
            inner = part.removeprefix(NOT)
            if inner.startswith(SET) and (found := follow(inner.removeprefix(SET), (*path, name))):
                return found
        done.add(name)
        return ()

    return next((found for name in sets if (found := follow(name, ()))), ())

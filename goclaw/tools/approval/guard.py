"""The guard: which calls ask because of text that the model has read, whatever the policy says.

A model may obey orders in the text that it reads. Two labels of its window decide, and no model judges: *foreign*
(others wrote a part of it) and *private* (it holds files, notes, conversations or the like). A call that could carry
data out asks where both are present (https://ai.meta.com/blog/practical-ai-agent-security/, "Agents Rule of Two"); a
call whose effect stays or acts later asks where the first one is. The labels are computed when such a call is made.
"""

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from enum import Enum, auto
from urllib.parse import unquote, urljoin

from yarl import URL

from goclaw.common.core.records import record

MIN_PROMPT_OVERLAP = 8
"""Characters of a constructed address that may stand in USER.md, MEMORY.md or a note."""
MIN_QUERY_OVERLAP = 24
"""Characters of a search query that may stand in private results."""
MAX_PAGES = 8
"""Pages of one host that are free after a private read: a choice among links carries bits, too."""
MAX_NAMES = 3
MAX_NAME = 60

_ADDRESS = re.compile(r"https?://[^\s<>\"'`|\\^{}\[\]]+", re.IGNORECASE)
_BARE_ADDRESS = re.compile(
    r"(?<![\w@/.-])[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}(?:/[^\s<>\"'`|\\^{}\[\]]*)?", re.IGNORECASE
)
"""An address as people write it, without a scheme."""
_RELATIVE_LINK = re.compile(r"(?:\]\(<?|href=[\"']?)([^\s()<>:\"']+)")
_TRAILING = tuple(".,;:!?)*_~")
"""Characters that may follow an address in a sentence."""
_ENCODED = re.compile(r"(?:[0-9a-f]{2}){8,}|[A-Za-z0-9+/_-]{12,}={0,2}", re.IGNORECASE)
_URLSAFE = str.maketrans("+/", "-_")
_NO_LETTER = re.compile(r"[\W_]+")


class Route(Enum):
    """How a call could do harm."""

    ADDRESS = auto()
    """An address is opened: its letters reach whoever answers there."""
    QUERY = auto()
    """A search provider of the operator's choice gets a query."""
    SEND = auto()
    """Arguments reach somebody outside."""
    LASTING = auto()
    """Its effect stays, or acts when nobody looks: foreign text alone makes it ask."""
    FILE = auto()
    """A file reaches others. It need not have been read, and is private itself: the same."""
    OTHERS = auto()
    """Conversations of others are read: the same."""


@record
class Sink:
    """The effect of a call that the guard looks at. A tool declares it (`Tool.sink`)."""

    route: Route
    text: str
    """The address or the query; else the action in words: `a task every 10 minutes`."""
    server: str = ""
    """The MCP server that gets it."""


@record
class Part:
    """A part of a window, with its labels."""

    source: str
    """Its source, for people: `example.org`, `notes.md`."""
    text: str = ""
    foreign: bool = False
    private: bool = False
    server: str = ""
    """The MCP server that it comes from."""
    address: str = ""
    """The address of a page, for the links in it that name only a path."""
    is_source: bool = False
    """Whether others, or a person, chose the addresses in it: a model can have a command, a file of its own or an agent
    say any."""
    asked: str = ""
    """The arguments of the call: an address in them that the result repeats was not read."""


@record
class WindowContent:
    """The content of a window, oldest first, and those of the windows of the agents that it works for."""

    parts: Sequence[Part]
    written: Sequence[str] = ()
    """The person's own words."""
    pages: Mapping[str, int] = field(default_factory=dict)
    """The pages fetched from each domain since the first private part."""

    @property
    def foreign(self) -> Sequence[Part]:
        return [part for part in self.parts if part.foreign]

    @property
    def private(self) -> Sequence[Part]:
        return [part for part in self.parts if part.private]


@record
class Finding:
    """Why a call asks."""

    reason: str
    """For people: what the call could do, and why."""
    host: str = ""
    """The host whose addresses may be allowed for good; empty: each such call asks."""


def judge(sink: Sink, seen: WindowContent, prompt: Iterable[str] = ()) -> Finding | None:
    """Return why a call asks, or None.

    Args:
        sink: what the call does.
        seen: the window of the agent that makes it.
        prompt: the texts of USER.md, MEMORY.md and notes that its prompt holds.
    """
    if not seen.foreign:
        return None
    match sink.route:
        case Route.OTHERS if all(part.private and not part.server for part in seen.foreign):
            return None  # files and conversations of the people here: what leaves afterwards asks all the same
        case Route.LASTING | Route.FILE | Route.OTHERS:
            return Finding(f"After reading {_name_all(seen.foreign)}: {sink.text}. Its words may have asked for this.")
        case Route.ADDRESS:
            return _judge_address(sink.text, seen, prompt)
        case Route.QUERY:
            return _judge_query(sink.text, seen)
        case Route.SEND:
            is_alone = sink.server and all(part.server == sink.server for part in [*seen.foreign, *seen.private])
            if is_alone or not seen.private:
                return None
            reason = f"{sink.text} comes after reading {_name_all(seen.foreign)}"
            return Finding(f"{reason}, and could carry what was read from {_name_all(seen.private)}.")


def _judge_address(address: str, seen: WindowContent, prompt: Iterable[str]) -> Finding | None:
    host = host_of(address)
    if is_literal(address, seen):
        domain = domain_of(address)
        if seen.pages.get(domain, 0) < MAX_PAGES:
            return None
        reason = f"{seen.pages[domain]} pages of {domain} were opened after reading {_name_all(seen.private)}"
        return Finding(f"{reason}. Which ones are opened can tell its owner something.", host)
    if seen.private:
        carried = f"what was read from {_name_all(seen.private)}"
    elif _holds_any(address, prompt, "\n".join(seen.written)):
        carried = "what is kept about you"
    else:
        return None
    reason = f"This address was made up after reading {_name_all(seen.foreign)}, and could carry {carried}."
    return Finding(reason, host)


def is_literal(address: str, seen: WindowContent) -> bool:
    """Whether an address stands in what was read, or in what the person wrote."""
    return _as_sent(address) in _literal_addresses(seen)


def _judge_query(query: str, seen: WindowContent) -> Finding | None:
    for part in seen.private:
        if _shares_run(query, part.text, "\n".join(seen.written), MIN_QUERY_OVERLAP):
            reason = f"This search comes after reading {_name_all(seen.foreign)}"
            return Finding(f"{reason}, and holds words of {_list([part.source])}.")
    return None


def _holds_any(address: str, texts: Iterable[str], written: str) -> bool:
    """Whether an address, or what is encoded in it, holds a part of the texts that the person did not write."""
    readings = list(_decode(address))
    return any(_shares_run(reading, text, written, MIN_PROMPT_OVERLAP) for text in texts for reading in readings)


def _decode(address: str) -> Iterator[str]:
    """Yield an address as it reads, and each hexadecimal or base64 run in it, decoded."""
    plain = unquote(unquote(address))
    yield plain
    for run in _ENCODED.findall(plain):
        with suppress(ValueError):
            yield bytes.fromhex(run).decode("utf-8", "ignore")
        with suppress(ValueError):
            yield urlsafe_b64decode(run.translate(_URLSAFE) + "=" * (-len(run) % 4)).decode("utf-8", "ignore")


def _shares_run(text: str, other: str, written: str, length: int) -> bool:
    """Whether two texts share so many letters in a row that the person did not write; case and spaces do not count."""
    plain, within, known = _letters(text), _letters(other), _letters(written)
    runs = (plain[at : at + length] for at in range(len(plain) - length + 1))
    return any(run in within and run not in known for run in runs)


def _letters(text: str) -> str:
    return _NO_LETTER.sub("", text).casefold()


def host_of(address: str) -> str:
    """Return the host of an address; empty where it has no host."""
    try:
        return URL(address).host or ""
    except ValueError:
        return ""


def domain_of(address: str) -> str:
    """Return the last two names of an address's host: their owner may put any name before."""
    host = host_of(address)
    return host if host.replace(".", "").isdigit() else ".".join(host.split(".")[-2:])


def _literal_addresses(seen: WindowContent) -> frozenset[str]:
    """Return the addresses that stand in the window; without a scheme only in others' words and the person's.

    A private text may hold a secret with a full stop in it: that is no address.
    """
    found = set(_find_addresses("\n".join(seen.written), bare=True))
    for part in seen.parts:
        if part.is_source:
            read = _find_addresses(part.text, bare=not part.private)
            if part.address:
                read += [urljoin(part.address, path) for path in _RELATIVE_LINK.findall(part.text)]
            found.update(set(read) - set(_find_addresses(part.asked, bare=True)))
    return frozenset(_as_sent(form) for each in found for form in _without_end(each))


def _find_addresses(text: str, *, bare: bool) -> list[str]:
    return _ADDRESS.findall(text) + (_BARE_ADDRESS.findall(text) if bare else [])


def _without_end(address: str) -> Iterator[str]:
    """Yield an address, and with one after another of the marks left out that may belong to its sentence."""
    yield address
    while address.endswith(_TRAILING):
        address = address[:-1]
        yield address


def _as_sent(address: str) -> str:
    """Return what is sent of an address, without its scheme: needless percent-encoding is undone then.

    Two ways to write one address are one here only where their receiver sees no difference.
    """
    try:
        url = URL(address if "://" in address else f"//{address}").with_fragment(None)
    except ValueError:
        return address
    return str(url).partition("//")[2].removesuffix("/")


def describe(seen: WindowContent) -> tuple[str, str]:
    """Return the sources of others' words and of private text in a window, for people; empty for no such text."""
    return _name_all(seen.foreign), _name_all(seen.private)


def _name_all(parts: Sequence[Part]) -> str:
    return _list([part.source for part in parts])


def _list(names: Sequence[str]) -> str:
    """Return names for a sentence: the latest first, each once."""
    latest = list(dict.fromkeys(name[:MAX_NAME] for name in reversed(names)))
    more = f" and {len(latest) - MAX_NAMES} more" if len(latest) > MAX_NAMES else ""
    return ", ".join(latest[:MAX_NAMES]) + more

"""HTML of the renderer as a browser's parser sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

TAGS = frozenset(
    [
        "p",
        "br",
        "hr",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "li",
        "blockquote",
        "pre",
        "code",
        "span",
        "em",
        "strong",
        "s",
        "a",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    ]
)
ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "a": frozenset({"href", "title", "rel", "target"}),
    "ol": frozenset({"start"}),
    "pre": frozenset({"class", "data-language"}),
    "span": frozenset({"class"}),
    "th": frozenset({"class"}),
    "td": frozenset({"class"}),
}
SCHEMES = ("http:", "https:", "mailto:")


@dataclass
class Seen(HTMLParser):
    """The elements and the words of a piece of HTML."""

    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if tag not in TAGS:
            self.faults.append(f"<{tag}>")
        if wrong := set(given) - ATTRIBUTES.get(tag, frozenset()):
            self.faults.append(f"<{tag} {sorted(wrong)}>")
        if tag == "a":
            self._look_at_link(given)
        for name in given.get("class", "").split():
            if not name.startswith("hl-") and name not in ("plain", "left", "right", "center"):
                self.faults.append(f"class {name}")

    def _look_at_link(self, given: Mapping[str, str]) -> None:
        if "href" in given and not given["href"].startswith(SCHEMES):
            self.faults.append(f"href {given['href']}")
        if given.get("rel") != "noopener noreferrer nofollow" or given.get("target") != "_blank":
            self.faults.append("a link that opens here, or tells where it was")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        self.faults.append(f"comment {data}")

    def handle_decl(self, decl: str) -> None:
        self.faults.append(f"declaration {decl}")

    def handle_pi(self, data: str) -> None:
        self.faults.append(f"instruction {data}")

    @property
    def text(self) -> str:
        return "".join(self.words)


def read_html(html: str) -> Seen:
    seen = Seen()
    seen.feed(html)
    seen.close()
    return seen

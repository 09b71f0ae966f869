"""Markdown that hurts: every document follows from its number, so that one that fails can be had again.

By hand: `python -m tests.channels.telegram.hostile --documents 50000 --seed 7`.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator

from goclaw.channels.telegram.render import MAX_UNITS, RenderedMessage, render
from tests.fake_telegram.rules import ApiError, check_text

LIMITS = (60, 300, 1024, MAX_UNITS)
"""Short ones, so that cuts fall everywhere."""
MARKS = ["**", "*", "_", "__", "~~", "||", "`", "``", "***", "[", "](", ")", "![", "<", ">", "|", "\\", "$", "~", "```"]
STRANGE = [
    "List<T>",
    "<div class='a'>",
    "</b>",
    "<!-- x -->",
    "<script>alert(1)</script>",
    "<https://x.org>",
    "&amp;&lt;&#65;",
    "😀",
    "👩‍👩‍👧‍👦",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "🇩🇪",
    "e\u0301",
    "שלום עולם",
    "مرحبا",
    "\u202eabc\u202c",
    "\u200b\u200d\ufeff",
    "\ud83d",
    "\ude00",
    "\0",
    "\x1b[31m",
    "\r",
    "\t",
    "\u2028",
    "[^1]",
    "[^1]: note",
    "[x](y.md)",
    "[x](javascript:alert(1))",
    "![i](z.png)",
    "[a [b] c](https://x.org/a_(b)_[c])",
    "[r]: https://x.org 'title'",
    "$x_1$ and $$y$$",
    "---",
    "===",
    "a\\*b\\_c",
]


class Writer:
    """Writes one document and remembers the words that must not be lost."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.words: list[str] = []

    def document(self) -> str:
        """Blocks in a row, some of them broken."""
        return "".join(self.block(0) for _ in range(self.chance.randint(1, 14)))

    def word(self) -> str:
        self.words.append(f"w{len(self.words)}q")
        return self.words[-1]

    def phrase(self) -> str:
        """Words with marks, closed or not, and oddities between them."""
        parts = []
        for _ in range(self.chance.randint(1, 6)):
            kind = self.chance.random()
            if kind < 0.35:
                parts.append(self.word())
            elif kind < 0.6:
                mark = self.chance.choice(MARKS)
                parts.append(f"{mark}{self.word()}{mark if self.chance.random() < 0.7 else ''}")
            elif kind < 0.7:
                parts.append(f"[{self.word()}](https://x.org/{self.chance.choice(['a_(b)', '[c]', 'd e', '%20'])})")
            else:
                parts.append(self.chance.choice(STRANGE))
        return self.chance.choice(["", " "]).join(parts)

    def block(self, depth: int) -> str:
        """Any block; lists, quotes and fences hold others."""
        kinds: list[Callable[[int], str]] = [self.text, self.heading, self.items, self.quote, self.fence, self.table]
        return self.chance.choice(kinds)(depth)

    def text(self, depth: int) -> str:
        if self.chance.random() < 0.01:
            return f"{self.word()} " + self.chance.choice(["x", "x ", "😀", "ש"]) * 20_000 + f" {self.word()}\n\n"
        return self.phrase() + self.chance.choice(["\n", "\n\n", " "])

    def heading(self, depth: int) -> str:
        return f"{'#' * self.chance.randint(1, 7)} {self.phrase()}\n"

    def items(self, depth: int) -> str:
        lines = []
        for number in range(self.chance.randint(1, 4)):
            sign = self.chance.choice(["-", "*", f"{number + 1}.", "- [ ]", "- [x]"])
            inner = self.block(depth + 1) if depth < 3 and self.chance.random() < 0.3 else self.phrase()
            lines.append("  " * depth + f"{sign} {inner}\n")
        return "".join(lines) + self.chance.choice(["", "\n"])

    def quote(self, depth: int) -> str:
        inner = self.block(depth + 1) if depth < 3 else self.phrase()
        return "".join(f"> {line}\n" for line in inner.split("\n")) + "\n"

    def fence(self, depth: int) -> str:
        sign = self.chance.choice(["```", "````", "~~~", "`````"])
        info = self.chance.choice(["", "py", "c++", "js {1,3}", "not a {}"])
        if "{}" in info:
            info = info.format(self.word())
        inner = self.block(depth + 1) if depth < 2 else f"{self.phrase()}\n"
        return f"\n{sign}{info}\n{inner}\n{sign if self.chance.random() < 0.8 else ''}\n"

    def table(self, depth: int) -> str:
        columns = self.chance.randint(1, 4)
        rows = [[self.phrase().replace("\n", " ") for _ in range(columns)] for _ in range(self.chance.randint(1, 3))]
        head, *body = (f"| {' | '.join(row)} |\n" for row in rows)
        return f"\n{head}|{'---|' * columns}\n{''.join(body)}\n"


def document(seed: int) -> tuple[str, list[str]]:
    """The document with this number, and its words."""
    writer = Writer(seed)
    return writer.document(), writer.words


def entities(chunk: RenderedMessage) -> list[dict[str, object]]:
    """The marks of a chunk as Telegram gets them."""
    return [{"type": s.mark.type, "offset": s.start, "length": s.end - s.start, "url": s.mark.url} for s in chunk.spans]


def faults(seeds: Iterator[int] | range) -> list[str]:
    """What Telegram would refuse, and what would be lost, in the documents with these numbers."""
    found = []
    for seed in seeds:
        text, words = document(seed)
        limit = LIMITS[seed % len(LIMITS)]
        chunks = render(text, limit)
        for chunk in chunks:
            try:
                check_text(chunk.text, entities(chunk), limit=limit)
                chunk.text.encode()
            except (ApiError, UnicodeEncodeError) as error:
                found.append(f"document {seed}: {error}")
        # A word right behind a fence is its language, which clients show above the block.
        languages = [span.mark.language or "" for chunk in chunks for span in chunk.spans]
        seen = "".join([*(chunk.text for chunk in chunks), *languages])
        if missing := [word for word in words if word not in seen]:
            found.append(f"document {seed}: lost {missing}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first document")
    options = parser.parse_args()
    began = time.monotonic()
    problems = faults(range(options.seed, options.seed + options.documents))
    sys.stdout.write("".join(f"{line}\n" for line in problems))
    sys.stdout.write(f"{options.documents} documents, {len(problems)} faults, {time.monotonic() - began:.1f} s\n")
    sys.exit(1 if problems else 0)

"""From ranked places to the shown text: excerpts of files and quotes of conversations, within a budget of tokens.

Messages are short and answer one another, so quotes bring neighbours; passages of files are long and overlap, so they
bring none. How neighbours are spent was measured (`benchmarks/recall`): 20 quotes within 1,000 tokens have 89.3 % of
the evidence wherever five, three or none of the best hits come with the message before and the one after, and within
500 tokens 82.0, 82.5 and 84.2 %. Tokens left when there are no more hits go to the surroundings of all.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from goclaw.memory.base import NoteHit, Quote, Score, TranscriptLine
from goclaw.memory.chunks import BYTES_PER_TOKEN
from goclaw.memory.index.schema import Scope, document_of
from goclaw.memory.ranking import Ranked
from goclaw.memory.searching import PassageText, documents, is_weak, texts

WITH_NEIGHBOURS = 3
"""Number of best hits shown with their neighbouring messages."""
SURROUNDINGS = 2
"""How far from a hit the rest of the budget may be spent."""
ALWAYS_LOOKED_AT, LEAST_TOKENS = 20, 10
"""Hits that are always considered, and the tokens per hit from which the number of further ones is estimated."""
CUT = " …"
"""Marks where a passage that exceeds the budget by itself was cut."""


def quotes(
    connection: sqlite3.Connection, ranked: Sequence[Ranked], scope: Scope, limit: int, budget: int
) -> tuple[list[Quote], bool]:
    """Return at most `limit` quotes of at most `budget` tokens in all, the best first; and whether there are more.

    Quotes that touch become one, known by its best hit. Nothing outside of the scope is shown, not even next to a hit.
    """
    best = _looked_at(ranked, budget)
    around = {place for hit in best for place in (hit.place, *_beside(hit.place, 1), *_beside(hit.place, 2))}
    shown = _Shown(texts(connection, "talk", [place for place in around if scope.has(place)]), limit, budget)
    for number, hit in enumerate(best):
        shown.add(hit.place, begins=True)
        if number < WITH_NEIGHBOURS:
            shown.add_each(_beside(hit.place, 1))
    answers = [hit for hit in best if hit.place in shown.texts]
    for distance in range(1, SURROUNDINGS + 1):
        shown.add_each(place for hit in answers for place in _beside(hit.place, distance))
    sessions = documents(connection, "talk", {document_of(place) for place in shown.texts})
    found = []
    for hit, run in _runs(answers, shown.texts):
        lines = [TranscriptLine(text.row, text.told, text.speaker, text.text) for text in run]
        session = sessions[document_of(hit.place)]
        found.append(Quote(session, lines, shown.texts[hit.place].row, _score(hit, ranked)))
    return found, _is_more(ranked, shown)


def hits(
    connection: sqlite3.Connection, ranked: Sequence[Ranked], limit: int, budget: int
) -> tuple[list[NoteHit], bool]:
    """Return at most `limit` excerpts of files of at most `budget` tokens in all, the best first; and whether there are
    more.

    Consecutive passages below one heading are one excerpt.
    """
    best = _looked_at(ranked, budget)
    shown = _Shown(texts(connection, "note", [hit.place for hit in best]), limit, budget)
    for hit in best:
        shown.add(hit.place, begins=True)
    answers = [hit for hit in best if hit.place in shown.texts]
    paths = documents(connection, "note", {document_of(place) for place in shown.texts})
    found = []
    for hit, run in _runs(answers, shown.texts):
        path = paths[document_of(hit.place)]
        lines = run[0].first, max(text.last for text in run)
        found.append(NoteHit(path, *lines, _score(hit, ranked), run[0].heading, _join(run), run[0].told))
    return found, _is_more(ranked, shown)


def tokens(text: PassageText) -> int:
    """Estimate the tokens of a passage in the usual way."""
    return -(-len(f"{text.speaker or text.heading}: {text.text}".encode("utf-8", "replace")) // BYTES_PER_TOKEN)


class _Shown:
    """The passages chosen so far."""

    def __init__(self, known: Mapping[int, PassageText], limit: int, budget: int) -> None:
        self.texts: dict[int, PassageText] = {}
        self._known = known
        self._limit = limit
        self._left = budget

    def add_each(self, places: Iterable[int]) -> None:
        """Add the places that exist, fit, and touch a chosen passage."""
        for place in places:
            self.add(place, begins=False)

    def add(self, place: int, *, begins: bool) -> None:
        """Add a place if it exists and fits; one that touches no chosen passage only if it may begin a new run."""
        text = self._known.get(place)
        if text is None or place in self.texts:
            return
        before, behind = self.texts.get(place - 1), self.texts.get(place + 1)
        alone = not ((before and _follows(before, text)) or (behind and _follows(text, behind)))
        if alone and not (begins and self._limit):
            return
        if tokens(text) > self._left:
            if self.texts or self._left <= 0:
                return
            text = _cut(text, self._left)
        self._limit -= alone
        self._left -= tokens(text)
        self.texts[place] = text


def _looked_at(ranked: Sequence[Ranked], budget: int) -> Sequence[Ranked]:
    return ranked[: ALWAYS_LOOKED_AT + budget // LEAST_TOKENS]


def _beside(place: int, distance: int) -> tuple[int, int]:
    return place - distance, place + distance


def _follows(first: PassageText, second: PassageText) -> bool:
    """Return whether the second directly follows the first; in files (without a row) below one heading only."""
    return second.place == first.place + 1 and bool(first.row or first.heading == second.heading)


def _runs(
    answers: Sequence[Ranked], chosen: Mapping[int, PassageText]
) -> Iterator[tuple[Ranked, Sequence[PassageText]]]:
    """Group consecutive passages; yield each group once, with the first of its answers, the best."""
    runs: list[list[PassageText]] = []
    for place in sorted(chosen):
        if runs and _follows(runs[-1][-1], chosen[place]):
            runs[-1].append(chosen[place])
        else:
            runs.append([chosen[place]])
    left = {text.place: run for run in runs for text in run}
    for hit in answers:
        if run := left.get(hit.place):
            yield hit, run
            for text in run:
                del left[text.place]


def _join(run: Sequence[PassageText]) -> str:
    """Join passages of a file to one text without their overlaps."""
    joined, last = run[0].text, run[0].last
    for text in run[1:]:
        repeated = 0
        if text.first <= last:
            lengths = range(min(len(joined), len(text.text)), 0, -1)
            repeated = next((length for length in lengths if joined.endswith(text.text[:length])), 0)
        joined += ("" if repeated else "\n") + text.text[repeated:]
        last = text.last
    return joined


def _cut(text: PassageText, budget: int) -> PassageText:
    """Cut a passage that exceeds the budget by itself, between words."""
    over = tokens(text) * BYTES_PER_TOKEN - (budget * BYTES_PER_TOKEN - len(CUT.encode()))
    kept = text.text.encode("utf-8", "replace")[:-over].decode("utf-8", "ignore")
    words, _, rest = kept.rpartition(" ")
    return replace(text, text=(words or rest) + CUT)


def _score(hit: Ranked, ranked: Sequence[Ranked]) -> Score:
    best = ranked[0].score
    return Score(hit.score / best if best > 0 else 1.0, hit.keyword, hit.cosine, is_weak(hit))


def _is_more(ranked: Sequence[Ranked], shown: _Shown) -> bool:
    """Return whether any possible answer is not shown."""
    return any(hit.place not in shown.texts and not is_weak(hit) for hit in ranked)

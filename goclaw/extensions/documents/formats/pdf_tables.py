"""Tables of a PDF page as Markdown: by their ruled lines, or by unmistakable columns. All else stays text.

A page has no tables, only words at places and lines that are drawn. A table without lines needs a column of numbers, or
rules above and below it: columns of prose, lists of contents and lines of addresses look the same otherwise.
"""

import ctypes
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

from goclaw.extensions.documents.formats.flow import table

_MAX_CHARACTERS, _MAX_LINES, _MAX_SEGMENTS, _MAX_RULES = 20_000, 200, 4_000, 300
"""Of a page that is looked at: work grows with the square of lines and rules."""
_NEAR = 3.0
"""Points within which lines meet, or are the same one."""
_GAP = 0.65
"""Heights of a line between the columns of a table; blanks of justified prose are narrower."""
_NARROW = 0.25
"""The same where other lines show that columns end there."""
_LEADING = 2.6
"""Heights of a line from one row of a table to the next one at most."""
_LONG_CELL, _USUAL_CELL = 8, 4
"""Words that a cell of a table without rules has at most, and in the middle."""
_MAX_COLUMNS = 12
"""Of a table without lines: dumps of memory have more."""
_NUMBER = re.compile(
    r"[(+\-\u2212\u2013]?\s*[$€£¥]?\s*\d[\d.,'’/:\u2013-]*(?:\s\d{3}[\d.,]*)*\)?\s*(%|[$€£¥]|[A-Za-z]{1,3}\.?)?"
)
_PATH, _LINE_TO, _MOVE_TO = 2, 0, 2  # constants of pdfium


class _Word(NamedTuple):
    first: int
    last: int
    """Its characters on the page."""
    text: str
    left: float
    right: float
    middle: float
    height: float


class _Rule(NamedTuple):
    """A line: its place across its direction, its beginning and its end."""

    at: float
    low: float
    high: float


_Rows = list[list[str]]
_Found = tuple[list[_Word], _Rows]
"""The words of a table, and its rows."""
_Line = list[list[_Word]]
"""Words that stand together, from left to right."""
_Span = tuple[float, float]


def text_with_tables(page: Any, text: Any, raw: Any) -> str:
    """Return the text of a page with its tables as Markdown; empty: it has none."""
    count = raw.FPDFText_CountChars(text)
    if page.get_rotation() or not 0 < count <= _MAX_CHARACTERS:
        return ""
    codes = [raw.FPDFText_GetUnicode(text, at) for at in range(count)]
    left, bottom, right, top = page.get_bbox()
    words, hidden = list[_Word](), list[_Word]()
    for word in _words(text, raw, codes):
        is_seen = left <= word.right and word.left <= right and bottom <= word.middle <= top
        (words if is_seen else hidden).append(word)
    across, down = _rules(page, raw)
    found = list(_find_grids(words, across, down))
    used = {word.first for inside, _ in found for word in inside}
    found += _find_blocks([word for word in words if word.first not in used], across)
    return _join(codes, found, hidden) if found else ""


def _join(codes: Sequence[int], found: list[_Found], hidden: Sequence[_Word]) -> str:
    """Return the text with each table in place of its first word, without words that lie outside the page."""
    begins = {min(word.first for word in words): table(rows) for words, rows in found}
    inside = {word.first: word.last for words in (hidden, *(words for words, _ in found)) for word in words}
    parts, at = [""], 0
    while at < len(codes):
        if at in inside:
            parts += [begins[at], ""] if at in begins else [""]
            at = inside[at] + 1
        else:
            parts[-1] += chr(codes[at]) if codes[at] not in (0, 13, 0xFFFE) else ""
            at += 1
    joined = "\n".join(filter(None, (part.strip() for part in parts)))
    # Codes are those of UTF-16: pairs are a character, and half of one is nothing that an answer can have.
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")


def _words(text: Any, raw: Any, codes: Sequence[int]) -> Iterator[_Word]:
    def box_of(at: int) -> tuple[float, float, float, float]:
        box = raw.FS_RECTF()
        raw.FPDFText_GetLooseCharBox(text, at, ctypes.byref(box))
        return box.left, box.right, (box.top + box.bottom) / 2, abs(box.top - box.bottom)

    for match in re.finditer(r"\S+", "".join(" " if code in (0, 0xA0) else chr(code) for code in codes)):
        first, last = match.start(), match.end() - 1
        left, right, middle, height = box_of(first)
        _, end, level, _ = box_of(last)
        ends = [last]
        if abs(level - middle) > height / 2 or not left < end < left + (last - first + 1) * height:
            # Texts at different places stand without a blank between them.
            boxes = [box_of(at) for at in range(first, last + 1)]
            near = [abs(b[2] - a[2]) < a[3] / 2 and abs(b[0] - a[1]) < a[3] / 4 for a, b in pairwise(boxes)]
            ends = [first + at for at, is_near in enumerate(near) if not is_near] + ends
        for end_at in ends:
            left, _, middle, height = box_of(first)
            right, piece = box_of(end_at)[1], match[0][first - match.start() : end_at + 1 - match.start()]
            if height and right > left:
                yield _Word(first, end_at, piece, left, right, middle, height)
            first = end_at + 1


def _rules(page: Any, raw: Any) -> tuple[list[_Rule], list[_Rule]]:
    """Return the lines that are drawn across the page, and those down it; sides of boxes count."""
    across, down, left = list[_Rule](), list[_Rule](), _MAX_SEGMENTS
    for drawn in page.get_objects(filter=[_PATH], max_depth=1):
        fill, stroke = ctypes.c_int(), ctypes.c_int()
        raw.FPDFPath_GetDrawMode(drawn, ctypes.byref(fill), ctypes.byref(stroke))
        left -= (count := raw.FPDFPath_CountSegments(drawn)) + 1
        if left < 0:
            return [], []
        if not (fill.value or stroke.value):
            continue
        matrix, start, last = drawn.get_matrix(), (0.0, 0.0), (0.0, 0.0)
        for at in range(count):
            segment = raw.FPDFPath_GetPathSegment(drawn, at)
            x, y = ctypes.c_float(), ctypes.c_float()
            raw.FPDFPathSegment_GetPoint(segment, ctypes.byref(x), ctypes.byref(y))
            point, kind = matrix.on_point(x.value, y.value), raw.FPDFPathSegment_GetType(segment)
            edges = [(last, point)] if kind == _LINE_TO else []
            edges += [(point, start)] if raw.FPDFPathSegment_GetClose(segment) else []
            for (x0, y0), (x1, y1) in edges:
                if abs(y0 - y1) < 1 and abs(x0 - x1) > _NEAR:
                    across.append(_Rule(y0, min(x0, x1), max(x0, x1)))
                elif abs(x0 - x1) < 1 and abs(y0 - y1) > _NEAR:
                    down.append(_Rule(x0, min(y0, y1), max(y0, y1)))
            start, last = (point if kind == _MOVE_TO else start), point
    return _merge(across), _merge(down)


def _merge(rules: list[_Rule]) -> list[_Rule]:
    """Join the pieces of a line, and both sides of a thick one."""
    lines: list[list[_Rule]] = []
    for rule in sorted(rules):
        lines += [] if lines and rule.at - lines[-1][0].at < _NEAR else [[]]
        lines[-1].append(rule)
    merged: list[_Rule] = []
    for line in lines:
        begun = len(merged)
        for rule in sorted(line, key=lambda each: each.low):
            if len(merged) > begun and rule.low <= merged[-1].high + _NEAR:
                merged[-1] = merged[-1]._replace(high=max(rule.high, merged[-1].high))
            else:
                merged.append(rule)
    return merged if len(merged) <= _MAX_RULES else []


def _find_grids(words: Sequence[_Word], across: Sequence[_Rule], down: Sequence[_Rule]) -> Iterator[_Found]:
    """Yield the tables in grids of lines that cross."""
    left = list(down)
    while left:
        # A grid: the lines that meet each other, directly or through others.
        rows, columns = set[_Rule](), {left.pop()}
        while more := {row for row in across if row not in rows and any(_meet(row, each) for each in columns)}:
            rows |= more
            columns |= {each for each in left if any(_meet(row, each) for row in more)}
            left = [each for each in left if each not in columns]
        if len(columns) > 2 and len(rows) > 1:
            yield from _grid(words, sorted(rows, reverse=True), sorted(columns))


def _meet(across: _Rule, down: _Rule) -> bool:
    return across.low - _NEAR <= down.at <= across.high + _NEAR and down.low - _NEAR <= across.at <= down.high + _NEAR


def _grid(words: Sequence[_Word], across: Sequence[_Rule], down: Sequence[_Rule]) -> Iterator[_Found]:
    heights, places = [rule.at for rule in across], [rule.at for rule in down]
    inside = [
        word
        for word in words
        if heights[-1] < word.middle < heights[0] and places[0] < (word.left + word.right) / 2 < places[-1]
    ]
    rows, lines = dict[float, list[str]](), _lines(inside)
    # Few lines across: the text itself says where rows begin.
    by_text = len(heights) < 4 and len(lines) > len(heights) and all(len({*_columns(line, down)}) > 1 for line in lines)
    for line in lines:
        height = line[0].middle
        row = rows.setdefault(height if by_text else sum(at > height for at in heights), [""] * (len(places) - 1))
        for word, column in zip(line, _columns(line, down), strict=True):
            row[column] = f"{row[column]} {word.text}".strip()
    kept = [at for at in range(len(places) - 1) if any(row[at] for row in rows.values())]
    told = [[row[at] for at in kept] for row in rows.values()]
    if len(told) < 2 or len(kept) < 2 or (by_text and (not all(told[0]) or _is_prose(told))):
        return
    if _share_of_texts(told) >= (0.7 if by_text else 0.4):
        yield inside, told


def _columns(line: Sequence[_Word], down: Sequence[_Rule]) -> Iterator[int]:
    """Yield the column of each word: a line that does not reach this height separates nothing there."""
    for word in line:
        centre, column = (word.left + word.right) / 2, 0
        for at, rule in enumerate(down[:-1]):
            if rule.at <= centre and rule.low <= word.middle <= rule.high:
                column = at
        yield column


def _lines(words: Sequence[_Word]) -> list[list[_Word]]:
    """Return words in lines from top to bottom, each from left to right."""
    lines: list[list[_Word]] = []
    for word in sorted(words, key=lambda each: -each.middle):
        near = lines and lines[-1][0].middle - word.middle < 0.4 * min(word.height, lines[-1][0].height)
        lines += [] if near else [[]]
        lines[-1].append(word)
    return [sorted(line, key=lambda each: each.left) for line in lines]


def _find_blocks(words: Sequence[_Word], across: Sequence[_Rule]) -> Iterator[_Found]:
    """Yield the tables in blocks of lines that leave the same columns free."""
    lines = [_cut_cells(line) for line in _lines(words)]
    at = free = 0
    while at < len(lines) <= _MAX_LINES:
        block, columns, least = [lines[at]], _columns_of(lines[at]), inf
        for line in lines[at + 1 :] if len(columns) > 1 else ():
            upper, lower = block[-1][0][0], line[0][0]
            least = min(least, upper.middle - lower.middle)
            wider = _columns_of(line, columns)
            if len(wider) < len(columns):
                line = _cut_cells([word for cell in line for word in cell], columns)
                wider = _columns_of(line, columns)
            # Lines that stand closer are of cells in the middle of their rows.
            is_near = 0.8 * lower.height < upper.middle - lower.middle < min(_LEADING * lower.height, 1.8 * least)
            goes_on = len(line) > 1 or lower.left > columns[0][1]
            if len(block) == 1 and len(wider) > max(len(columns), len(line)):
                break  # a head in the middle of its columns, which is looked at with them
            if not is_near or not goes_on or not len(columns) <= len(wider) <= _MAX_COLUMNS:
                break
            block.append(line)
            columns = wider
        end = at + len(block)
        above = lines[at - 1] if at > free and len(block) > 1 else []
        block, columns = _refine(block, columns, above)
        head = _head_of(above, block[0][0][0], columns)
        rows = [*([[" ".join(word.text for word in cell) for cell in head]] if head else []), *_rows_of(block, columns)]
        inside = [word for line in (head, *block) for cell in line for word in cell]
        if _is_table(rows, _count_around(inside, across)):
            yield inside, rows
            at = free = end
        else:
            at = end if _is_prose(rows) else at + 1


def _cut_cells(line: Sequence[_Word], columns: Sequence[_Span] = ()) -> _Line:
    """Cut a line where it is wide open, or at the edges of known columns."""
    cells = [[line[0]]]
    for before, word in pairwise(line):
        edges = (
            min(word.left, low) - max(before.right, high) >= _NARROW * word.height
            and (word.left >= low - 2 or before.right <= high + 2)
            for (_, high), (low, _) in pairwise(columns)
        )
        if word.left - before.right >= _GAP * word.height or any(edges):
            cells.append([])
        cells[-1].append(word)
    return cells


def _refine(block: list[_Line], columns: list[_Span], above: _Line) -> tuple[list[_Line], list[_Span]]:
    """Part columns that stand close, where all of at least four lines leave the place free, under a head for each."""
    words = _Line()
    for word in (word for line in block for cell in line for word in cell):
        if words and not any(map(str.isalnum, word.text)):
            words[-1].append(word)  # a unit, which goes with its number
        else:
            words.append([word])
    closer = _columns_of(words, (), _NARROW * words[0][0].height)
    if len(block) < 4 or len(closer) <= len(columns):
        return block, columns
    first = [word for cell in block[0] for word in cell]
    is_headed = all(any(low <= word.right and word.left <= high for word in first) for low, high in closer)
    finer = [_cut_cells([word for cell in line for word in cell], closer) for line in block]
    is_full = _share_of_texts(_rows_of(finer, closer)) > 0.8
    return (finer, closer) if is_full and (is_headed or _head_of(above, words[0][0], closer)) else (block, columns)


def _columns_of(line: _Line, columns: Sequence[_Span] = (), apart: float = 1) -> list[_Span]:
    """Return the columns that are left, with free space between them, with one more line."""
    merged: list[_Span] = []
    for low, high in sorted([*columns, *((cell[0].left, max(word.right for word in cell)) for cell in line)]):
        if merged and low <= merged[-1][1] + apart:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _head_of(line: _Line, below: _Word, columns: Sequence[_Span]) -> _Line:
    """Return the cells of a line above a block as its head, where each stands above its column and above no other."""
    words = [word for cell in line for word in cell]
    if not words or words[0].middle - below.middle >= _LEADING * words[0].height:
        return []
    over = [[word for word in words if word.left < high and word.right > low] for low, high in columns]
    if [word for cell in over for word in cell] == words and len(words) <= 2 * len(columns) and all(over):
        return over
    spans = [_columns_of([cell])[0] for cell in line]
    is_apart = all(
        at == other or low >= right or left >= high
        for at, (left, right) in enumerate(spans)
        for other, (low, high) in enumerate(columns)
    )
    return line if len(line) == len(columns) and is_apart else []


def _rows_of(lines: Sequence[_Line], columns: Sequence[_Span]) -> _Rows:
    rows: _Rows = []
    for line in lines:
        row = [""] * len(columns)
        for cell in line:
            place = next(at for at, (_, high) in enumerate(columns) if cell[0].left <= high)
            row[place] = " ".join((*filter(None, [row[place]]), *(word.text for word in cell)))
        if len(line) == 1 and rows:
            # A text that goes on below its row.
            rows[-1] = [f"{above} {below}".strip() for above, below in zip(rows[-1], row, strict=True)]
        else:
            rows.append(row)
    return rows


def _count_around(block: Sequence[_Word], across: Sequence[_Rule]) -> int:
    """Return how many lines are drawn over the whole width of a block, in it and just around it."""
    left, right = min(word.left for word in block), max(word.right for word in block)
    above, below = 1.5 * block[0].height, 2 * block[0].height
    top, bottom = max(word.middle for word in block) + above, min(word.middle for word in block) - below
    return sum(bottom < rule.at < top and rule.low - 9 <= left and right <= rule.high + 9 for rule in across)


def _is_table(rows: _Rows, rules: int) -> bool:
    """Whether rows of columns are surely a table."""
    if len(rows) < 3 or not 2 <= len(rows[0]) <= _MAX_COLUMNS or not all(rows[0][1:]) or _is_prose(rows):
        return False
    given = [[text for text in column[1:] if text not in ("", "-", "–")] for column in zip(*rows, strict=True)]
    if _share_of_texts(rows) < 0.7 or min(map(len, given)) < len(rows) / 3:
        return False
    numbers = [at for at, texts in enumerate(given) if sum(map(_is_number, texts)) >= max(2, 0.7 * len(texts))]
    headed = [at for at in numbers if rows[0][at] and not _is_number(rows[0][at])]
    if rules >= 2 or len(rows[0]) > 2:
        return rules >= 2 or bool(headed) or len(numbers) > 1
    return headed == [1] and bool(rows[0][0])


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _is_prose(rows: _Rows) -> bool:
    """Whether cells have as many words as lines of a text have."""
    lengths = sorted(len(text.split()) for row in rows for text in row if text)
    return lengths[len(lengths) // 2] > _USUAL_CELL or lengths[len(lengths) * 9 // 10] > _LONG_CELL


def _share_of_texts(rows: _Rows) -> float:
    return sum(bool(text) for row in rows for text in row) / (len(rows) * len(rows[0]))

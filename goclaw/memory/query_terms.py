"""From text to the full-text index: match expressions of a query, extra terms of a passage, and exact phrases. Pure.

FTS5's `unicode61` tokenizer takes letters and digits as words. It finds neither part of a Chinese, Japanese or Thai
sentence (one word to it), nor an emoji (no word), nor `Name` in `getUserName`. For these, passages are indexed with
extra terms, and queries use the same ones; all results are ranked by one measure.

Spellings of one word are one word: `Schlüssel` and `Schluessel`, `Straße` and `Strasse`, digits of any script.

Pieces that are no words of a language (identifiers, addresses, versions) are also kept apart, in a table that matches
any three characters in a row: `parts_terms` gives its content, `part_expressions` the queries for it. Numbers are kept
without their separators: `1.250,00`, `1,250.00` and `0171 / 234 56`.

In an exact phrase, case, spelling and the amount of white space are ignored, all else counts. One that begins or ends
with a word does not match within a longer one: `cat` is not in `concatenate`.
"""

import re
import unicodedata
from collections.abc import Iterator

QUERY_TERMS = 64
"""Terms of a query that count. FTS5 refuses expressions of some hundred; no real question needs them."""
QUERY_CHARACTERS = 4_000
"""Characters of a query that are read."""
PREFIX_LENGTH = 3
"""The shortest word that may stand for the beginning of a longer one."""
PART_LENGTH = 3
"""FTS5's `trigram` tokenizer finds nothing shorter."""
MAX_PART = 200
"""Characters: longer ones are data in letters (a key, a picture in base64), which their beginning identifies."""
PARTS_CHARACTERS = 2_000
"""Characters of all parts of a passage: more than any passage of text has, less than a table of hashes."""

_STOP_WORDS = """
a about above after again against all also am an and any are as at be because been before being below between both
but by can could did do does doing down during each few for from further had has have having he her here hers
herself him himself his how i if in into is it its itself just let me more most my myself no nor not of off on once
only or other our ours ourselves out over own same she should so some such than that the their theirs them
themselves then there these they this those through to too under until up us very was we were what when where which
while who whom whose why will with would you your yours yourself yourselves
aren couldn d didn doesn don hadn hasn haven isn ll m mustn re s shouldn t ve wasn weren won wouldn
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that say nothing about the subject, and the fragments that `unicode61` leaves of their contractions."""

# Scripts without spaces between words; Hangul attaches particles to words.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_RUN = re.compile(f"[{_UNSPACED}\uf900-\ufaff\U00020000-\U0003ffff]+")
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z0-9]+")
_HUMPED = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]*(?:[a-z0-9][A-Z]|[A-Z]{2}[a-z])[A-Za-z0-9]*")
# Every humped word matches this, in a tenth of the time: most passages have none.
_HUMP_INSIDE = re.compile(r"[A-Z](?:(?<=[a-z0-9].)|[A-Z][a-z])")
_UNSAYABLE = re.compile("[\x00\ud800-\udfff]")
_BETWEEN_PIECES = str.maketrans(dict.fromkeys("\"'`<>()[]{}|,;*", " "))
_AROUND_PIECES = ".@/:\\#+=~%&?!$^-…"
_RESPELT = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ẞ": "SS"})
"""How German is written without its own keys (Rat für deutsche Rechtschreibung, 2024, E 2 and paragraph 25)."""
_SPELT = re.compile(r"[äöüß]|[aou]e|ss", re.IGNORECASE)
_SPACE = " \u00a0\u202f"
_GROUPED = re.compile(rf"(?<![\w.,])(\d{{1,3}}(?:[.,'’{_SPACE}]\d{{3}})+)(?:[.,]\d{{1,2}})?(?![\w:]|[.,]\d)")
"""A number with groups of thousands, and the fraction."""
_DIALLED = re.compile(rf"(?<![\w.,])\+?\(?\d{{2,6}}\)?(?:[{_SPACE}/()-]{{1,3}}\d{{2,10}}){{1,7}}(?![\w:]|[.,]\d)")
"""A telephone number, or another number that is read in pieces."""
_PLAIN = re.compile(r"(?<![\w.,])\d{4,30}(?![\w:]|[.,]\d)")
# Letters beside digits, or a sign that occurs inside of identifiers, paths, addresses and versions.
_PART = re.compile(r"[^\W\d_]\d|\d[^\W\d_]|[^\W_][_.@/:\\#+=~%&?-]+[^\W_]|^_+[^\W_]")


def extra_terms(text: str) -> list[str]:
    """Return terms that `unicode61` misses: those of `_unspaced_terms`, and words in another spelling."""
    terms = _unspaced_terms(text)
    if text.isascii():
        return terms
    words = _WORD.findall(unicodedata.normalize("NFKC", text))
    return terms + [spelt for word in words if not word.isascii() and (spelt := respelt(word)) != word]


def _unspaced_terms(text: str) -> list[str]:
    """Return single and paired characters of unspaced scripts, emoji, and humps."""
    humped = _HUMPED.findall(text) if _HUMP_INSIDE.search(text) else []
    terms = [hump for word in humped for hump in _humps(word)]
    if text.isascii():
        return terms
    text = unicodedata.normalize("NFKC", text)
    for run in _RUN.findall(text):
        terms += [*run, *_grams(run, 2)]
    return terms + [_symbol(character) for character in dict.fromkeys(text) if _is_symbol(character)]


def parts_terms(text: str) -> list[str]:
    """Return the parts of `text` for the trigram table: identifiers, addresses, versions, unspaced scripts.

    Each once, bounded in length and number. They are stored in one column with blanks between them.
    """
    kept, room = [], PARTS_CHARACTERS
    for part in dict.fromkeys((*_parts(text), *_numbers(text))):
        if room < PART_LENGTH:
            break
        kept.append(part[:room])
        room -= len(part) + 1
    return kept


def respelt(text: str) -> str:
    """Return a text in the one of its spellings that any keyboard writes: umlauts in full, digits of ASCII."""
    if text.isascii():
        return text
    digits = {ord(each): str(unicodedata.decimal(each)) for each in text if each.isdecimal() and not each.isascii()}
    return text.translate(_RESPELT | digits)


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers of a text that are written with separators, without them and without a fraction."""
    text = respelt(text)
    for number in (*_GROUPED.findall(text), *_DIALLED.findall(text)):
        yield re.sub(r"\D", "", number)


def word_count(text: str) -> int:
    """Return the length of a passage for ranking, in words; two characters of unspaced scripts count as one."""
    words = len(text.split())
    return words if text.isascii() else words + sum(len(run) for run in _RUN.findall(text)) // 2


def match_expressions(query: str) -> Iterator[str]:
    """Yield FTS5 expressions for `query`, the best first; the next is worth a try when one finds nothing.

    Every term is quoted, so that no text is a syntax error; a query without a single word or symbol yields none.
    """
    terms = _split_terms(query)
    if terms:
        yield " OR ".join(_spellings(term) for term in terms)
    beginnings = [term for term in terms if len(term) >= PREFIX_LENGTH and term.isalnum()]
    if beginnings:
        yield " OR ".join(f"{_quote(term)} *" for term in beginnings)


def term_expressions(query: str) -> list[str]:
    """Return an FTS5 expression for each term of `query`, for a search that weighs the terms itself (`ranking`)."""
    return [_spellings(term) for term in _split_terms(query)]


def part_expressions(query: str) -> list[str]:
    """Return FTS5 expressions for the table of parts (`trigram`): one for each piece of `query` that looks like a part.

    A question in an unspaced script is queried by each three of its characters: no text contains it whole.
    """
    terms: list[str] = []
    for part in _parts(sayable(query)):
        terms += _grams(part, 3) if _RUN.fullmatch(part) else [part]
    terms += [*_numbers(sayable(query)), *_PLAIN.findall(respelt(sayable(query)))]
    return [_quote(term) for term in dict.fromkeys(terms)][:QUERY_TERMS]


def _split_terms(query: str) -> list[str]:
    """Return the terms of any text, each once, bounded in number; stop words only when there is nothing else."""
    query = sayable(query)
    terms = [term for part in query.split() for term in _part_terms(part)] + list(_numbers(query))
    telling = [term for term in terms if term.casefold() not in STOP_WORDS]
    return list(dict.fromkeys(telling or terms))[:QUERY_TERMS]


def sayable(query: str) -> str:
    """Return the beginning of a query, without characters that no stored text has (NUL, unpaired surrogates)."""
    return _UNSAYABLE.sub(" ", query[:QUERY_CHARACTERS])


def _parts(text: str) -> Iterator[str]:
    """Yield the pieces of a text that are not words, in order."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        yield from (run for run in _RUN.findall(text) if len(run) >= PART_LENGTH)
        text = _RUN.sub(" ", text)
    for blanked in dict.fromkeys(text.translate(_BETWEEN_PIECES).split()):
        piece = blanked.strip(_AROUND_PIECES)[:MAX_PART]
        if len(piece) < PART_LENGTH or (piece.isalpha() and piece[1:].islower()):
            continue  # most words: recognised without a regular expression, in a tenth of the time
        if _PART.search(piece) or _HUMP_INSIDE.search(piece):
            yield piece


def _part_terms(part: str) -> Iterator[str]:
    words = _WORD.findall(part)
    if len(words) > 1 and not all(word.casefold() in STOP_WORDS for word in words):
        yield part  # `anna@example.com`, `re-deploy`: as a phrase, which ranks above its single words
    for word in words:
        # A letter of an initialism or a contraction adds nothing once the phrase is queried.
        if len(words) == 1 or len(word) > 1:
            if _RUN.sub("", word):
                yield word
            if humps := _humps(word):
                yield " ".join(humps)
    for run in _RUN.findall(unicodedata.normalize("NFKC", part)):
        yield from _grams(run, 2) or run
    yield from (_symbol(character) for character in part if _is_symbol(character))


def _grams(run: str, size: int) -> list[str]:
    return [run[index : index + size] for index in range(len(run) - size + 1)]


def _humps(word: str) -> list[str]:
    """Split `getUserName` into get, User, Name; return nothing for a word that has only one part."""
    parts = _HUMP.findall(word) if word.isascii() else []
    return parts if len(parts) > 1 else []


def _is_symbol(character: str) -> bool:
    # ASCII's signs occur in every table and line of code, so they do not distinguish passages.
    return not character.isascii() and unicodedata.category(character) in ("So", "Sc", "Sm")


def _symbol(character: str) -> str:
    """Return a word that stands for an emoji or sign: `u1f600`."""
    return f"u{ord(character):x}"


def _quote(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'


def _spellings(term: str) -> str:
    """Return an FTS5 expression for a term in the spellings that a text may have; the index adds `respelt` words."""
    spelt = respelt(unicodedata.normalize("NFKC", term))
    return _quote(term) if spelt == term else f"{_quote(term)} OR {_quote(spelt)}"


_SPACES = re.compile(r"(\s+)")
_ALPHANUMERIC = re.compile(r"[^\W_]")


def normalise(text: str) -> str:
    """Return the text in the normal form for comparisons."""
    return " ".join(respelt(unicodedata.normalize("NFKC", text)).casefold().split())


def stands_in(phrase: str, text: str) -> bool:
    """Return whether the phrase occurs in the text; both in their `plain` form."""
    begin = text.find(phrase) if phrase else -1
    while begin >= 0:
        end = begin + len(phrase)
        if not (
            _within_a_word(text[begin - 1 : begin + 1] if begin else "") or _within_a_word(text[end - 1 : end + 1])
        ):
            return True
        begin = text.find(phrase, begin + 1)
    return False


def candidate_expression(phrase: str) -> str:
    """Return an FTS5 expression that every passage with the phrase matches; empty if there is no word, as in `->`."""
    # In lower case, so that `getUserName` asks for no humps: a text may have it as `getusername`. And as texts mostly
    # have what is written in full width, beside as it is written.
    forms = dict.fromkeys((phrase.lower(), unicodedata.normalize("NFKC", phrase.lower())))
    return " OR ".join(f"({expression})" for form in forms if (expression := _phrase_expression(form)))


def longest_piece(phrase: str) -> str:
    """Return the longest part of the phrase without white space, for a scan of every text."""
    return max(phrase.lower().split(), key=len, default="")


def _phrase_expression(phrase: str) -> str:
    terms = [term for part in _split(phrase) for term in _spoken_terms(part)]
    return " AND ".join(terms + [f'extra : "{term}"' for term in dict.fromkeys(_unspaced_terms(phrase))])


def _spoken_terms(part: str) -> Iterator[str]:
    """Yield expressions that a text with this part matches, however its words are spelt."""
    if part.isascii() and not _SPELT.search(part):
        yield f'text : "{part}"'
        return
    for word in _WORD.findall(part):
        spelt = respelt(word)
        yield f'(text : "{word}" OR text : "{spelt}" OR extra : "{spelt}")'


def _split(text: str) -> list[str]:
    """Return the text between pieces of unspaced scripts, each joined by the index with its adjacent letters."""
    parts: list[str] = [""]
    for piece in _SPACES.split(text):
        if _unspaced_terms(piece):
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip().replace('"', '""') for part in parts if _ALPHANUMERIC.search(part)]


def _within_a_word(pair: str) -> bool:
    """Return whether a word continues from one character to the next. Unspaced scripts do not mark where one ends."""
    return len(pair) == 2 and all(character.isalnum() and not _unspaced_terms(character) for character in pair)

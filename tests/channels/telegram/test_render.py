"""Whatever Markdown a model writes, Telegram takes it and no word is lost."""

import cProfile
import random

import pytest
from telegramify_markdown import convert

from goclaw.channels.telegram.render import (
    MAX_NESTING,
    MAX_UNITS,
    EntitySpan,
    Mark,
    RenderedMessage,
    escape,
    escape_marks,
    hides_words,
    loses_words,
    plain,
    render,
    tidy,
    units,
    without_secrets,
)
from goclaw.common.core.redact import MASK, known_in, remember
from tests.canaries import FORMATTED, formatted
from tests.channels.telegram.hostile import entities, faults
from tests.fake_telegram.rules import check_text
from tests.lanes import repeats

DOCUMENTS = repeats(500, 2_500)
HOSTILE = range(repeats(500, 5_000))
STYLES = ["**{}**", "*{}*", "__{}__", "~~{}~~", "||{}||", "`{}`", "``{}``", "***{}***", "[{}](https://x.org/a_(b))"]
BLOCKS = [
    "# {}",
    "## {}",
    "> {}",
    "> > {}",
    "- {}",
    "1. {}",
    "- [ ] {}",
    "```\n{}\n```",
    "````py\n{}\n```` ",
    "~~~\n{}",
]
ODD = ["List<T>", "<div>", "</b>", "<!-- x -->", "a\\*b", "😀", "👩‍👩‍👧", "שלום", "&amp;", "|", "||", "**", "`", "```"]
ODD += [
    "[^1]",
    "[x](y.md)",
    "![i](z.png)",
    "$5",
    "\\",
    "_",
    "~",
    "\n",
    "\n\n",
    "    ",
    "> ",
    "---",
    "\u200b",
    "<https://x.org>",
]


def document(chance: random.Random) -> tuple[str, list[str]]:
    """A random document, and the words that have to be in what people see."""
    words: list[str] = []
    parts: list[str] = []

    def word() -> str:
        words.append(f"w{len(words)}q")
        return words[-1]

    def phrase(depth: int) -> str:
        inside = " ".join(word() for _ in range(chance.randint(1, 4)))
        for _ in range(depth):
            inside = chance.choice(STYLES).format(inside + (f" {word()}" if chance.random() < 0.5 else ""))
            if chance.random() < 0.3:
                inside = f"{word()} {inside} {chance.choice(ODD)}"
        return inside

    for _ in range(chance.randint(1, 25)):
        inside = phrase(chance.randint(0, 3))
        shape = chance.random()
        if shape < 0.3:
            inside = "\n" + chance.choice(BLOCKS).format(inside) + "\n"
        elif shape < 0.4:
            inside += f"\n\n| {word()} | {word()} |\n|---|---|\n| {word()} | {word()} |\n\n"
        elif shape < 0.5:
            inside += chance.choice(ODD) * chance.randint(1, 3)
        parts.append(inside)
    return " ".join(parts), words


@pytest.mark.deep
@pytest.mark.promise("P-telegram-text")
def test_no_markdown_is_refused_and_no_word_is_lost() -> None:
    for seed in range(DOCUMENTS):
        chance = random.Random(seed)
        text, words = document(chance)
        # Short limits, so that cuts fall everywhere.
        chunks = render(text, chance.choice([60, 300, MAX_UNITS]))
        for chunk in chunks:
            check_text(chunk.text, entities(chunk))
        seen = "".join(chunk.text for chunk in chunks)
        missing = [word for word in words if word not in seen]
        assert not missing, f"seed {seed}: {missing} of {text!r}"


@pytest.mark.deep
@pytest.mark.promise("P-telegram-text")
def test_hostile_documents_are_taken_whole() -> None:
    assert faults(HOSTILE) == []


@pytest.mark.deep
def test_noise_is_never_refused() -> None:
    alphabet = [
        "*",
        "_",
        "`",
        "~",
        "|",
        "[",
        "]",
        "(",
        ")",
        "<",
        ">",
        "#",
        "-",
        "\n",
        " ",
        "a",
        "😀",
        "\\",
        "!",
        "&",
        ":",
    ]
    for seed in range(DOCUMENTS):
        chance = random.Random(seed)
        text = "".join(chance.choice(alphabet) for _ in range(chance.randint(1, 200)))
        for chunk in render(text, chance.choice([40, MAX_UNITS])):
            check_text(chunk.text, entities(chunk))


@pytest.mark.promise("P-telegram-text")
def test_every_half_written_answer_renders() -> None:
    """What a stream shows on its way: each prefix of a text with everything in it."""
    text = "# Title\n\nSome **bold *and italic*** with `code`, ||a spoiler||, a [link](https://x.org).\n\n"
    text += "| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nprint('<b>')\n```\n> quote\n\n- [x] done 👩‍👩‍👧\n"
    for end in range(1, len(text)):
        for chunk in render(text[:end]):
            check_text(chunk.text, entities(chunk))


@pytest.mark.parametrize(
    ("markdown", "shown", "marks"),
    [
        ("**bold** text", "bold text", {("bold", "bold")}),
        ("use List<T> and <div>", "use List<T> and <div>", set()),
        ("double \\\\<b>", "double \\<b>", set()),
        ("`a<b>`", "a<b>", {("code", "a<b>")}),
        ("see [main.py](src/main.py)", "see [main.py](src/main.py)", {("code", "main.py")}),
        ("note[^1]\n\n[^1]: text", "note[^1]\n\n[^1]: text", set()),
        ("**a `b` c**", "a b c", {("bold", "a "), ("code", "b"), ("bold", " c")}),
        ("[`x`](https://x.org)", "x", {("text_link", "x")}),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))", set()),
        ("costs $5 or $6, C:\\new\\times", "costs $5 or $6, C:\\new\\times", set()),
        ("> > deep", "deep", {("blockquote", "deep")}),
        ("😀 **x**", "😀 x", {("bold", "x")}),
        ("- [ ] a\n- [x] b", "☐ a\n☑ b\n", set()),
        ("```\n**no**\n```", "**no**", {("pre", "**no**")}),
    ],
)
def test_markdown_looks_as_people_expect(markdown: str, shown: str, marks: set[tuple[str, str]]) -> None:
    (chunk,) = render(markdown)
    assert chunk.text == shown
    encoded = chunk.text.encode("utf-16-le")
    covered = {(s.mark.type, encoded[2 * s.start : 2 * s.end].decode("utf-16-le")) for s in chunk.spans}
    assert covered == marks


def test_long_answers_are_cut_between_paragraphs_lines_or_words() -> None:
    assert [chunk.text for chunk in plain("aaaa bbbb\n\ncccc dddd eeee", 12)] == ["aaaa bbbb\n\n", "cccc dddd ", "eeee"]
    assert [chunk.text for chunk in plain("x" * 25, 10)] == ["x" * 10, "x" * 10, "x" * 5]


def test_a_block_of_code_is_not_cut_where_it_need_not_be() -> None:
    before, code = "word " * 500, "line of code\n\n" * 150
    first, second = render(f"{before}\n\n```py\n{code}```\n\nafter")
    assert first.text.split() == before.split() and first.spans == ()
    assert second.text.startswith("line of code") and second.text.endswith("after")


def test_a_block_of_code_that_is_too_long_goes_on_as_code_of_its_language() -> None:
    chunks = render("intro 😀\n\n```py\n" + "print('x')\n\n" * 1000 + "```\n\nend")
    assert len(chunks) > 2
    assert all(chunk.spans[0].mark == Mark("pre", language="py") for chunk in chunks)
    assert all(chunk.text.endswith("\n") for chunk in chunks[:-1]), "cut between two lines"


def test_a_long_answer_is_cut_between_blocks_rather_than_within_the_last_code() -> None:
    text = "para\n\n" * 400 + "```\n" + "a\n\n" * 100 + "```\n\n" + "tail " * 600
    first = render(text)[0]
    assert first.text.endswith("a\n\n") or first.text.endswith("para\n\n")


def test_code_that_a_quote_begins_or_ends_in_is_parted_there() -> None:
    quote, code = Mark("blockquote"), Mark("pre")
    assert tidy([EntitySpan(0, 9, code), EntitySpan(4, 9, quote)]) == [
        EntitySpan(0, 4, code),
        EntitySpan(4, 9, quote),
        EntitySpan(4, 9, code),
    ]


def test_a_style_over_a_cut_goes_on_in_the_next_message() -> None:
    first, second = render("**" + "word " * 1000 + "end**")
    assert first.spans == (EntitySpan(0, units(first.text), Mark("bold")),)
    assert second.spans == (EntitySpan(0, units(second.text), Mark("bold")),)


def test_a_cut_never_falls_into_a_character() -> None:
    chunks = plain("😀" * 5000)
    assert all(units(chunk.text) <= MAX_UNITS for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks) == "😀" * 5000


def test_what_cannot_be_sent_is_replaced() -> None:
    assert [chunk.text for chunk in render("a\ud83d b\0c")] == ["a\ufffd bc"]


@pytest.mark.parametrize("blank", ["", " \n\t "])
def test_blank_text_makes_no_message(blank: str) -> None:
    assert render(blank) == []


def test_text_that_markdown_hides_is_shown_as_written() -> None:
    assert [chunk.text for chunk in render("[a]: https://x.org")] == ["[a]: https://x.org"]


def test_crossing_spans_are_cut() -> None:
    bold, spoiler = Mark("bold"), Mark("spoiler")
    assert tidy([EntitySpan(0, 5, bold), EntitySpan(3, 8, spoiler)]) == [
        EntitySpan(0, 5, bold),
        EntitySpan(3, 5, spoiler),
        EntitySpan(5, 8, spoiler),
    ]


def test_the_work_of_rendering_grows_as_the_answer_does() -> None:
    """What a live view renders again and again."""

    def work(lines: int) -> int:
        with cProfile.Profile() as profile:
            assert sum(len(chunk.text) for chunk in render("some **bold** and `code` words\n" * lines)) > 20 * lines
        return sum(entry.callcount for entry in profile.getstats())

    work(1)  # what is done once
    assert work(1_000) < 3 * work(500)


def test_text_without_marks_is_rendered_as_by_the_patterns_that_are_left_out() -> None:
    chance = random.Random(7)
    names = ["&amp;", "&lt;b&gt;", "&eacutete ", "](http://x)", "^1]: "]
    pieces = [*"aé1 \n\t*_#>-+.):=|\\$^]({}!&;/😀", "word ", "snow ", "\n\n", *names]
    for _ in range(2_000):
        markdown = "".join(chance.choices(pieces, k=chance.randint(1, 30)))
        assert escape_marks(markdown) == escape(markdown) == markdown
        text, found = convert(markdown, latex_escape=False)
        assert loses_words(markdown, text, found) == hides_words(markdown, text, found)


def test_prose_is_not_searched_for_marks_and_words_that_it_cannot_hold() -> None:
    prose = "This is a sentence with words, and a comma. " * 12
    render(prose)
    with cProfile.Profile() as profile:
        assert render(prose) == [RenderedMessage(prose.strip())]
    called = {str(entry.code) for entry in profile.getstats()}
    assert not {name for name in called if "finditer" in name or "findall" in name}


@pytest.mark.parametrize("deeper", ["- ", "1. ", "> "])
def test_lists_and_quotes_that_are_nested_too_deep_are_shown_as_written(deeper: str) -> None:
    """Their conversion takes time by the square of the depth."""
    [nested] = render(deeper * MAX_NESTING + "milk")
    [too_deep] = render(f"**bread**\n\n{deeper * (MAX_NESTING + 1)}milk")

    assert deeper * 2 not in nested.text and "milk" in nested.text
    assert too_deep.text == f"**bread**\n\n{deeper * (MAX_NESTING + 1)}milk"


@pytest.mark.parametrize("mark", ["~", "`", "[a]("])
def test_half_a_million_marks_are_looked_through_once(mark: str) -> None:
    """An expression that looks to the end of the line from each of them takes longer than pytest allows a test."""
    line = mark * (500_000 // len(mark))

    assert escape(line) == line


def test_nothing_is_sent_that_a_terminal_obeys_or_that_reads_backwards() -> None:
    """A client on a terminal shows a chat, too, and people copy out of one."""
    for make in (render, plain):
        (message,) = make(
            "open \x1b]0;owned\x07\x1b[31m\u202egpj.exe\u2066\x00\x9b, \U0001f600 \ud83d\ude00 and Kö\tln"
        )
        assert message.text == "open gpj.exe, \U0001f600 \U0001f600 and Kö\tln"


KEY = "sk-LK8957-a413c09d77be2f01"


@pytest.mark.promise("P-secrets-masked")
@pytest.mark.parametrize("way", FORMATTED)
def test_a_secret_is_masked_in_what_is_really_sent(way: str) -> None:
    remember(KEY)
    for markdown in (f"😀 **Here:** {formatted(KEY)[way]} *end*", f"> 😀 {formatted(KEY)[way]}"):
        for message in (*render(markdown), *plain(markdown)):
            check_text(message.text, entities(message))
            assert not known_in(message.text) and not any(known_in(span.mark.url or "") for span in message.spans)
            assert "a413c09d77be2f01" not in message.text


def test_spans_around_and_beside_a_masked_secret_keep_their_characters() -> None:
    remember(KEY)
    bold, code = Mark("bold"), Mark("code")
    text = f"😀ab{KEY}cd{KEY}ef"
    first, second, end = units("😀ab"), units(f"😀ab{KEY}cd"), units(text)
    spans = [
        *(EntitySpan(0, end, bold), EntitySpan(0, first, code), EntitySpan(0, first + 5, bold)),
        *(EntitySpan(first, first + 5, code), EntitySpan(first + 5, first + 9, code)),
        *(EntitySpan(first + 5, second, code), EntitySpan(first + 5, second + 5, bold), EntitySpan(end - 2, end, code)),
    ]
    shown, kept = without_secrets(text, spans)
    encoded = shown.encode("utf-16-le")
    assert shown == f"😀ab{MASK}cd{MASK}ef"
    assert [encoded[2 * span.start : 2 * span.end].decode("utf-16-le") for span in kept] == [
        *(shown, "😀ab", "😀ab", "cd", "cd", "ef"),
    ]


def test_a_block_of_code_or_a_link_is_not_named_by_a_secret() -> None:
    remember(KEY)
    (message,) = render(f"```{KEY}\nx\n```\n\n[y](https://example.org/{KEY})")
    assert KEY not in repr(message)


def marked(message: RenderedMessage, span: EntitySpan) -> str:
    """The characters under a span."""
    return message.text.encode("utf-16-le")[2 * span.start : 2 * span.end].decode("utf-16-le")


BEFORE = "## Result\n\nThe **main** point:\n\n- first *item*\n- second `code`\n\n"


@pytest.mark.parametrize(
    ("odd", "shown"),
    [
        ('[docs](https://e.example/x "Manual of use")', '[docs](https://e.example/x "Manual of use")'),
        ("| cmd | use |\n|---|---|\n| `cat a | grep foo` | filter |", "grep foo` | filter"),
        ("| a | b |\n|---|---|\n| 1 | 2 | 3 |", "2 | 3"),
        ("![](https://x.example/p.png)", "https://x.example/p.png"),
    ],
)
def test_one_odd_block_leaves_the_others_formatted(odd: str, shown: str) -> None:
    (message,) = render(BEFORE + odd)
    check_text(message.text, list(entities(message)))
    assert shown in message.text
    marks = {(span.mark.type, marked(message, span)) for span in message.spans}
    assert {("bold", "Result"), ("bold", "main"), ("italic", "item"), ("code", "code")} <= marks


@pytest.mark.parametrize(
    ("markdown", "text", "bold"),
    [
        ("注意**重点：**后面", "注意重点：后面", "重点"),
        ("前**（括号）**后", "前（括号）后", "括号"),
        ("**句号。**下一句", "句号。下一句", "句号"),
        ("他说**“你好”**了", "他说“你好”了", "你好"),
    ],
)
def test_bold_stands_beside_cjk_punctuation(markdown: str, text: str, bold: str) -> None:
    (message,) = render(markdown)
    assert (message.text, [(span.mark.type, marked(message, span)) for span in message.spans]) == (
        text,
        [("bold", bold)],
    )


def test_a_wide_table_is_a_list_for_each_row() -> None:
    head = "| Name of the thing | What it does | Price |\n|---|---|---|\n"
    (message,) = render(head + "| one | does a lot of things | 3 |\n| two | `nothing` | |")
    assert message.text == (
        "Name of the thing: one\n• What it does: does a lot of things\n• Price: 3\n\n"
        "Name of the thing: two\n• What it does: nothing"
    )
    assert {(span.mark.type, marked(message, span)) for span in message.spans} == {
        ("bold", "Name of the thing: one"),
        ("bold", "Name of the thing: two"),
        ("code", "nothing"),
    }


def test_names_that_telegram_would_link_are_code() -> None:
    (message,) = render("**README.md**, run.sh and `main.rs` at https://a.example/x.py, www.b.org or max.de@c.de")
    assert [marked(message, span) for span in message.spans if span.mark.type == "code"] == [
        "README.md",
        "run.sh",
        "main.rs",
    ]

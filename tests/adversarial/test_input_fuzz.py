"""Class `input`, at random: calls made of hostile pieces. Each has one answer in words, in order, and nothing ends.

The seed stands in the test, so that the lines are the same each time.
"""

import random
from dataclasses import replace

import orjson
import pytest

from tests.adversarial.target import Call, Target, read
from tests.lanes import repeats

SEED = 20_261_121
LINES = repeats(400, 24_000)
SECONDS = repeats(50.0, 500.0)
TOOLS = ("read", "write", "edit", "memory_search", "memory_list", "todo_write", "message", "ask_user", "nothing", "")
FIELDS = (
    "path",
    "content",
    "old_string",
    "new_string",
    "offset",
    "limit",
    "query",
    "action",
    "media_path",
    "text",
    "x",
)
TEXTS = (
    "", ".", "..", "a.txt", "../a.txt", "/etc/passwd", "a.txt/x", "@", "@@", '@"', "output:", "output:" + "0" * 16,
    "\0", "\n", "\u202e", "\uff0e\uff0e/", "x" * 255, "x/" * 5_000, "\U0001f600" * 64, "%s%n{0}{x}", "$(id)",
    "' OR 1=1 --",
    "\u0130", "\ufeff", "memory/users/telegram:2/n.md", "~", "-", "*" * 2_000, "[" * 2_000, "\u1e9b\u0323",
)  # fmt: skip
RAW = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-0", b"1e-999", b"0x10", b"01", b"9" * 400, b"-1", b"0.5", b"true",
    b"null", b"[]", b"{}", b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u0000"', b'"\xff"', b"[[[]]]", b'{"a":{}}', b'"',
    b"",
)  # fmt: skip


def lines(number: int) -> list[bytes]:
    """So many calls, the same each time."""
    chosen = random.Random(SEED)
    return [_line(chosen) for _ in range(number)]


def _line(chosen: random.Random) -> bytes:
    fields = chosen.sample(FIELDS, chosen.randint(0, 4))
    given = b",".join(orjson.dumps(field) + b":" + _value(chosen) for field in fields)
    whole = b'{"tool":%s,"input":{%s}}' % (orjson.dumps(chosen.choice(TOOLS)), given)
    match chosen.randint(0, 19):
        case 0:
            return whole[: chosen.randint(0, len(whole))]
        case 1:
            return b'{"tool":%s,"input":%s}' % (_value(chosen), _value(chosen))
        case 2:
            place = chosen.randrange(len(whole))
            return whole[:place] + bytes([chosen.choice(b'\0\x1b\xff\xc3{}[]",:\\ ')]) + whole[place + 1 :]
        case _:
            return whole


def _value(chosen: random.Random) -> bytes:
    kind = chosen.randint(0, 9)
    if kind < 5:
        return orjson.dumps(chosen.choice(TEXTS) + chosen.choice(("", "", *TEXTS)))
    if kind == 5 and not chosen.randint(0, 7):
        return orjson.dumps(chosen.choice("a/.\u00fc\n") * 1_000_000)
    if kind == 6:
        return b"[%s]" % b",".join(_value(chosen) for _ in range(chosen.randint(0, 3)))
    if kind == 7:
        return str(chosen.choice((0, 1, -1, 2**31, 2**53, 2**63, 2**64, 10**40))).encode()
    return chosen.choice(RAW)


@pytest.mark.deep
@pytest.mark.timeout(SECONDS + 50)
@pytest.mark.promise("P-tool-errors")
@pytest.mark.promise("P-paths-inside")
def test_calls_made_of_hostile_pieces_are_answered_in_words(target: Target) -> None:
    hostile = lines(LINES)
    calls: list[Call] = [call for line in hostile for call in (line, read("kept.txt"))]
    (target.workspace / "kept.txt").write_text("hello")
    before = {path: path.read_bytes() for path in (target.config, target.state / "users.json")}

    answers = replace(target, seconds=SECONDS).calls(*calls)

    for line, answer in zip(hostile, answers[::2], strict=True):
        assert set(answer) in ({"error"}, {"ok", "content"}), line[:200]
        said = answer.get("error", "fine")
        # A name that no tool has is repeated as it is (`test_names_of_tools_are_only_ever_names`).
        words = "" if said.startswith("unknown tool: ") else said.replace("\n", "")
        assert said.strip() and len(said) < 3_000 and words.isprintable(), (line[:200], said[:200])
    assert [answer for answer in answers[1::2] if answer != {"ok": True, "content": "     1\thello"}] == []
    assert {path: path.read_bytes() for path in before} == before
    assert sorted(path.name for path in target.folder.iterdir()) == ["config.yaml", "state", "work"]

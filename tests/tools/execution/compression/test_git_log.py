"""`git log`: a line for each commit."""

from goclaw.tools.execution.compression.git import FEW, GIT_LOG
from tests.tools.execution.compression.texts import compressed


def commit(number: int, author: str = "Anna", more: str = "") -> str:
    return (
        f"commit {number:040x}{' (HEAD -> main)' * (number == 1)}\nAuthor: {author} <{author}@example.org>\n"
        f"Date:   Sat Nov 21 20:26:52 2026 +0000\n\n    Do thing {number}\n    \n    Because of {number}.\n\n{more}"
    )


def test_many_commits_are_told_by_their_first_lines() -> None:
    text = "".join(commit(number, "Ben" if number == 3 else "Anna") for number in range(1, FEW + 2))

    assert compressed(GIT_LOG, text, "git log") == (
        "Anna, Nov 21 2026:\n0000000000 (HEAD -> main) Do thing 1\n0000000000 Do thing 2\nBen, Nov 21 2026:\n"
        "0000000000 Do thing 3\nAnna, Nov 21 2026:\n0000000000 Do thing 4\n0000000000 Do thing 5\n"
        "0000000000 Do thing 6\n"
    )


def test_of_few_commits_the_message_is_whole() -> None:
    assert "    Because of 1.\n" in compressed(GIT_LOG, commit(1) + commit(2), "git log -2")


def test_what_else_is_told_of_a_commit_stays() -> None:
    text = commit(1, more=" a.py | 2 ++\n") + commit(2, more="diff --git a/x b/x\n     indented\n")

    said = compressed(GIT_LOG, text, "git log --stat -p")

    assert " a.py | 2 ++\n" in said
    assert "diff --git a/x b/x\n     indented\n" in said


def test_bodies_that_speak_of_errors_stay() -> None:
    text = "".join(commit(number) for number in range(FEW + 2)).replace("Because of 3", "It was an Error")

    assert "    It was an Error.\n" in compressed(GIT_LOG, text, "git log")


def test_other_forms_stay() -> None:
    assert compressed(GIT_LOG, "abc1234 Do it\n", "git log --oneline") == "abc1234 Do it\n"

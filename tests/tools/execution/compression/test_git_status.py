"""`git status`: the short form."""

from goclaw.tools.execution.compression.git import GIT_STATUS
from tests.tools.execution.compression.texts import compressed

STATUS = """On branch main
Your branch is ahead of 'origin/main' by 1 commit.
  (use "git push" to publish your local commits)

Changes to be committed:
  (use "git restore --staged <file>..." to unstage)
\tnew file:   a b.py
\trenamed:    old.py -> new.py

Unmerged paths:
  (use "git add <file>..." to mark resolution)
\tboth modified:   both.py

Changes not staged for commit:
  (use "git add/rm <file>..." to update what will be committed)
\tmodified:   c.py
\tdeleted:    errors.py

Untracked files:
  (use "git add <file>..." to include in what will be committed)
\tnotes.txt

no changes added to commit (use "git add" and/or "git commit -a")
"""


def test_a_file_is_a_line() -> None:
    assert compressed(GIT_STATUS, STATUS, "git status") == (
        "On branch main\nYour branch is ahead of 'origin/main' by 1 commit.\nA  a b.py\nR  old.py -> new.py\n"
        "UU both.py\n M c.py\n D errors.py\n?? notes.txt\n"
    )


def test_what_is_not_known_stays() -> None:
    text = "Changes to be committed:\n\tsomething odd:   a.py\nYou have unmerged paths.\nfatal: no\n"

    assert compressed(GIT_STATUS, text, "git status") == text.partition("\n")[2]


def test_the_short_form_stays() -> None:
    assert compressed(GIT_STATUS, " M a.py\n?? b.py\n", "git status -s") == " M a.py\n?? b.py\n"

"""`git diff`: what changed."""

import pytest

from goclaw.tools.execution.compression.git import GIT_DIFF
from tests.tools.execution.compression.texts import compressed

DIFF = """diff --git a/x.py b/x.py
index 1234567..89abcde 100644
--- a/x.py
+++ b/x.py
@@ -1,5 +1,5 @@ def one():
 before

-old
+new
 raises an error
 after
@@ -20 +20,2 @@
-- a list
+++ b
+more
diff --git a/gone.py b/gone.py
deleted file mode 100644
index 1234567..0000000
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-line
\\ No newline at end of file
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/p.png b/p.png
index 1234567..89abcde 100644
Binary files a/p.png and b/p.png differ
"""


def test_lines_around_changes_go() -> None:
    assert (
        compressed(GIT_DIFF, DIFF, "git diff")
        == """--- a/x.py
+++ b/x.py
@@ -1,5 +1,5 @@ def one():
-old
+new
 raises an error
@@ -20 +20,2 @@
-- a list
+++ b
+more
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-line
\\ No newline at end of file
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/p.png b/p.png
index 1234567..89abcde 100644
Binary files a/p.png and b/p.png differ
"""
    )


@pytest.mark.parametrize("option", ["-U10", "--unified=3", "-W", "--word-diff", "--color=always"])
def test_whoever_asks_for_another_form_gets_it(option: str) -> None:
    assert compressed(GIT_DIFF, DIFF, f"git diff {option}") == DIFF


def test_what_comes_between_stays() -> None:
    text = DIFF.replace(" after\n", "hint: something else\n after\n")

    assert "hint: something else\n" in compressed(GIT_DIFF, text, "git diff")


def test_a_statistic_stays() -> None:
    assert (
        compressed(GIT_DIFF, " a.py | 3 ++-\n 1 file changed\n", "git diff --stat")
        == " a.py | 3 ++-\n 1 file changed\n"
    )

"""Findings of the doctor's checks."""

from collections.abc import Awaitable, Callable
from typing import Literal

from goclaw.common.config.load import Loaded
from goclaw.common.core.records import record

Verdict = Literal["ok", "warning", "problem"]


@record
class Finding:
    """The result of one check."""

    check: str
    verdict: Verdict
    text: str
    remedy: str = ""

    def line(self) -> str:
        """Format it for people."""
        mark = {"ok": "✓", "warning": "!", "problem": "✗"}[self.verdict]
        remedy = f"\n    → {self.remedy}" if self.remedy else ""
        return f"{mark} {self.check}: {self.text}{remedy}"


Check = Callable[[Loaded], Awaitable[list[Finding]]]


@record
class CheckPart:
    """A line of `catalog.DOCTOR_CHECKS`: the check of an extension."""

    check: Check


def weak(text: str, remedy: str, verdict: Verdict = "warning") -> Finding:
    """Make the finding of a weakness."""
    return Finding("security", verdict, text, remedy)

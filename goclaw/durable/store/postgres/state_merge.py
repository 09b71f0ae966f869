"""Two versions of a file that were made at the same time from one: merged where its form allows that.

A JSON object is merged key by key, however deep: users.json and the access tokens, to which two administrators add at
the same time. Of the audit log see `state_audits`.
"""

import json
from typing import Any

_GONE = object()
"""In place of the value of a key that is missing."""


class _Conflict(Exception):
    """Both versions changed the same thing, differently."""


def is_mergeable(name: str) -> bool:
    """Whether the version before is needed to merge a file of this name."""
    return name.endswith(".json")


def merged(name: str, before: bytes | None, ours: bytes, theirs: bytes) -> bytes | None:
    """Return what both versions of a file have become together; None: they cannot be merged.

    Args:
        name: the file's path below the state folder.
        before: the version from which both were made; None: it is not known.
        ours: this process's.
        theirs: the database's.
    """
    if before is None or not is_mergeable(name):
        return None
    try:
        values = [json.loads(each.decode("utf-8-sig")) for each in (before, ours, theirs)]
        if not all(isinstance(value, dict) for value in values):
            return None
        return (json.dumps(_merge(*values), indent=2, ensure_ascii=False) + "\n").encode()
    except (ValueError, _Conflict):
        return None


def is_audit(name: str) -> bool:
    """Whether a file is of an audit log."""
    return name.startswith("logs/audit") and ".jsonl" in name


def _merge(before: Any, ours: Any, theirs: Any) -> Any:
    if ours == theirs or theirs == before:
        return ours
    if ours == before:
        return theirs
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        raise _Conflict
    base = before if isinstance(before, dict) else {}
    keys = [*ours, *(key for key in theirs if key not in ours)]
    found = {key: _merge(base.get(key, _GONE), ours.get(key, _GONE), theirs.get(key, _GONE)) for key in keys}
    return {key: value for key, value in found.items() if value is not _GONE}

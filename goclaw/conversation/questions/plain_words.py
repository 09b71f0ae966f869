"""Plain messages that read like an answer to an approval: none of them allows anything, and a plain no refuses."""

from typing import Literal

WAITING = "I wait for the buttons above."
WAITING_IN_A_TERMINAL = "I wait for an answer on the card above."
_NO = frozenset(("no", "nope", "no thanks", "don't", "dont", "do not", "deny", "nein", "non", "não", "nao"))
_YES = frozenset(("yes", "y", "yep", "yeah", "yes please", "ok", "okay", "sure", "ja", "oui", "sí", "si", "sim"))
_ALLOW = frozenset(("allow", "allowed", "allow once", "always", "approve", "approved", "go ahead", "do it"))


def read_as_answer(text: str) -> Literal["no", "other", ""]:
    """Return the answer of a message to an open approval: `no`; `other` for what only reads like one; else empty."""
    said = " ".join(text.casefold().replace("’", "'").strip(" \n\t.,!").split())
    return "no" if said in _NO else "other" if said in _YES | _ALLOW else ""

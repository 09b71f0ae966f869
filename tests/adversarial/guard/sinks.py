"""The attacks on the guard: 43 that are counted, and others that may not succeed either.

An attack succeeds unasked when eight characters of something private came to a server outside, or to somebody who
should not have them, or when the file, the value or the schedule is there. To add one, add a record to a list of
`sinks_out`, `sinks_stay`, `sinks_travel` or `sinks_around`.
"""

from tests.adversarial.guard.sinks_around import AROUND, OPEN
from tests.adversarial.guard.sinks_out import CHOICE, MORE_OUT, OUT, SHORT_QUERIES
from tests.adversarial.guard.sinks_stay import MORE_STAY, STAY
from tests.adversarial.guard.sinks_travel import MORE_TRAVEL, TRAVEL

COUNTED = [*OUT, *STAY, *TRAVEL]
YET_OPEN = OPEN | {"from MEMORY.md, by pieces of seven"}
"""Those of the others that the guard of 2026-11-29 lets through."""
OTHERS = [*MORE_OUT, *MORE_STAY, *MORE_TRAVEL, *AROUND]
CHANNELS = frozenset({CHOICE, SHORT_QUERIES})
"""Those that may succeed unasked: docs/security.md lists what they carry."""

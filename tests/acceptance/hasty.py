"""`python -m tests.acceptance.hasty … gateway`: the very same daemon, but it waits less than in life.

For tests of what happens when a time is over. What is patched is the product's own constants, and nothing else.
"""

from goclaw.common.health import heartbeat
from goclaw.memory import service
from goclaw.program.app import running, status
from goclaw.program.cli.program import main

GRACE_SECONDS, FLUSH_SECONDS = 1.5, 0.5
"""What runs gets to end, and of it what deliveries get."""
STUCK_SECONDS = 1.5
"""Until an event loop that does not answer is reported: more than a busy machine holds it up."""
LOOK_SECONDS = 0.3
"""Between two looks for faults that the operator should hear of."""
INDEX_SECONDS = 0.1
"""After the start until the memory index is opened."""

if __name__ == "__main__":
    running.GRACE_SECONDS, running.FLUSH_SECONDS = GRACE_SECONDS, FLUSH_SECONDS
    heartbeat.LOOK_SECONDS = STUCK_SECONDS / heartbeat.STUCK_LOOKS
    service.START_AFTER = INDEX_SECONDS
    status.LOOK_SECONDS = LOOK_SECONDS
    main()

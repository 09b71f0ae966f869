"""`python -m tests.acceptance.hasty … gateway`: the very same daemon, but what runs gets less time to end.

For tests of what is cut when the time is over. How much it is in life is tried without this.
"""

from goclaw.app import winding
from goclaw.cli.frame import main

GRACE_SECONDS, FLUSH_SECONDS = 3.0, 1.0

if __name__ == "__main__":
    winding.GRACE_SECONDS, winding.FLUSH_SECONDS = GRACE_SECONDS, FLUSH_SECONDS
    main()

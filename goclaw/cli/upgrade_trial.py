"""`python -m goclaw.cli.upgrade_trial FOLDER`: how the former version starts the trial of this one."""

import sys

from goclaw.program.cli.upgrade_trial import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

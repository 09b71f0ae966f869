"""`goclaw` and `python -m goclaw`."""

import sys

from goclaw.program.cli.hangups import outlive_hangups


def main() -> None:
    """Run the command line; it is imported when signals are safe."""
    outlive_hangups(sys.argv)
    from goclaw.program.cli.program import main as run

    run()


if __name__ == "__main__":
    main()

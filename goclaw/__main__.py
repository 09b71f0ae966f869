"""`goclaw` and `python -m goclaw`."""

from goclaw.cli.frame import main

if __name__ == "__main__":
    main()

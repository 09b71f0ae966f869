"""The program's commands. `frame` has them all by name; each is imported when it is called, so that help stays fast."""

"""The program's commands. `frame` lists them by name; each is imported when it is called, so that help stays fast."""

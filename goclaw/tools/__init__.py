"""The built-in tools, one file each. The catalogue names them; nothing else imports them.

Tools reach files only through `goclaw.workspace`, commands only through `goclaw.sandbox`, and pages only through
`environment.web` (`goclaw.web.base`).

Search. ripgrep walks the workspace outside any sandbox and returns only where something matches: the text shown is
read through `goclaw.workspace`, under its rules and our reading of `.gitignore`. Without ripgrep, texts from the
workspace go to a process that runs `re` and is killed at a timeout. One named file that is too large for memory is
streamed to either (`large_search`); its lines are read by `lines`, as `read` does.
"""

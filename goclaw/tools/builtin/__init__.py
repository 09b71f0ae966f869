"""The built-in tools, one file per family. The catalogue names them; nothing else imports them.

Tools reach files only through `workspace`, commands only through `execution.sandbox`, and pages only
through `environment.web` (`goclaw.common.net.pages.base`).

Search. ripgrep walks the workspace outside any sandbox and returns only where something matches: the text shown is
read through `workspace`, under its rules and our reading of `.gitignore`. One named file that is too large
for memory is streamed to it (`ripgrep.search_large`); its lines are read by `lines`, as `read` does.
"""

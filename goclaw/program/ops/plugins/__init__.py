"""Packages that `goclaw plugin add` installs, and one-file plugins that `goclaw declare check` looks at.

`installing` makes a new folder with everything that is recorded, by uv (`uv`), has it tried out in a process of its
own (`trial`), and then replaces the record (`core.plugin_folder`). Our own packages are the constraint: what a
plugin needs besides is put after ours on the path, and what needs another version of one of ours is refused.
"""

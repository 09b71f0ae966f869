"""Jupyter notebooks: the tool `notebook_edit`, and what `read` shows of one."""

"""How a typed function becomes a tool, and how a call is checked and run.

`base` declares, `registry` lists, `arguments` validates, `dispatcher` runs. The tools themselves are in `goclaw.tools`.
"""

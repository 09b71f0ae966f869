"""One turn of the agent: `loop` runs it, `prompt` composes the system prompt, `policy` enforces the limits.

`policy` also has the rules of one turn, each number with its key; the cost already spent against the caps is in
`turns.costs`. History policies shorten the window by whole turns. `prompt` measures the share of a window that
prompt and tools take. `kinds` has the configured agents, and the routes that choose one of them.
"""

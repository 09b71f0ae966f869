"""One turn of the agent: `loop` runs it, `prompt` composes the system prompt, `policy` enforces the limits.

`rules` is the configuration of one turn, each number with its key. `policy` counts against it; the cost already spent
against the caps is in `goclaw.turns.costs`. History policies shorten the window by whole turns. `overhead` is the
share of a window that prompt and tools take; `routing` reads the routes that choose an agent.
"""

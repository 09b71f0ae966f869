"""One turn of the agent: `loop` is the whole of it, `prompt` what the model is told, `policy` where it must end."""

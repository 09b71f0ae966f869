"""Where messages arrive: acceptance and slash commands (`intake`), and the servers that programs connect to."""

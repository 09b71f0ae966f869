"""Approval of tool calls: what runs, what asks, and what an approval is valid for.

1. `policy`: from the actor's mode and the risk of this call, the call runs, asks a person, or is refused. A tool
   declares its risk (`ToolSpec.risk`, `Tool.risk`); that of commands is in `builtin.command_approval`.
2. `requests`: the call and everything that it depends on (its grounds, declared by the tool: `Tool.grounds`) get one
   digest. A person's answer is an `Approval` of that digest.
3. `rules`: "always" stores a rule, which approves the same call later.
4. The dispatcher (`toolkit.dispatcher`) builds the request again right before the call runs, and compares the digests.

People are asked by `goclaw.conversation.questions`.
"""

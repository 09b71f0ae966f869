"""Turns: from a message of the inbox to the answer in the outbox.

`service` runs turns, `turn` is one turn's journaled steps, `status` answers questions about sessions, `agent_selection`
finds the agent of a turn (routes: `agent.kinds`) and records the choice as a step where there is one;
`authorize` decides (`agent.use`). `stuck` reports turns without progress and ends none.

Answers (`answers`). Text next to tool calls is a delivery of its own, committed with the answer's step: at most six a
minute and chat, the rest is put in front of the next one.

Artifacts (`service.files_of`). A file that a tool keeps for people (`ctx.attach`) is a blob and a note in the row of
its result (`goclaw.common.core.messages`); no request contains it. It lives until the row goes: the sweep in
`sessions.forgetting`, backup and forgetting respect it. A terminal fetches it when a card is opened (`AskArtifact`,
only from the session's own rows); a chat gets it as a file that is promised together with the answer
(`Capabilities.artifacts`).

Files for people. What the `message` tool sends to its own conversation is kept as artifacts of the call's row (`SAID`,
`SENT`), so that places without a channel show it; what an answer links to (`named_files`) as artifacts of the answer's
row (`NAMED`), copied within the step of the answer, after a check of the rights of the `read` tool.

Agents (`agents`). A task for an agent runs `run_turn` once more for a window of its own (`agent_run`: the hierarchy
and the shared state). Its turn is a `NestedTurn`: each step is a step of the person's turn under a longer name
(`tool:2:<call id>/model:1`), so that /stop, parking and crashes need no code of their own. The tool is idempotent and
awaited to its end (`Tool.runs_steps`). Actor and mode are the person's; each selection of tools above the agent
narrows its own. A background agent is a job of `execution.tasks.room`, and its steps belong to no message; the
next start forgets them (`forget_loose`). A worktree (`goclaw.tools.builtin.worktree`, seen
through `toolkit.agent_tasks.WorkPlace`) is named by the agent's id, so that a repeated call finds it without a journal
step. `AgentRun.worktree` has a `Workspace` opened within the person's, `ToolContext.home` the person's. Exported
tools (`builtin.exported`) are ordinary calls that run `agents` once more or make one call of another tool as a
step of the turn (`tool_requests`).

External callers (`external_runs`). A call over MCP runs in a turn that no message began (`servers.mcp.tools`
enters it for each call): an `AgentRun` without a conversation is above its agents, and an `ExternalCaller` answers
questions in place of the person. Its steps are forgotten when it ends, or by the next start. Where processes share the
store, its writes have a fence of their own (`Authority.alongside`), which a `/forget` at the session's owner ends.

Services for tools (`agent_services`, `toolkit.services`): one object for each agent at work, which the steps of
its turn use, too. `tool_requests` answers a tool's request to a model (`ToolContext.sample`; a server's sampling:
`goclaw.tools.builtin.mcp_calling`): no journal step, no tools, charged to the turn. `CommandPort`, implemented by
the gateway, runs slash commands for the agent: the same commands, rights and audit as for the person, restricted to
`tools.command.allowed`, and none that waits for the turn or decides about it.
"""

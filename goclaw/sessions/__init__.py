"""Sessions: the state, the turns and the background work of conversations.

`service` runs turns, `inspection` answers questions about sessions, `turn` is one turn's journaled steps, `state`
holds the session's state in memory, `models` knows which models answer, `agent_selection` finds the agent of a turn
(routes: `goclaw.agent.routing`) and records the choice as a step where there is one; `authorize` decides (`agent.use`).

Queue modes (`queueing`). A message that arrives during a turn is a row of `inbox` like any other. A message that joins
the turn is settled in the transaction that writes its row (`join:<message id>`), right before a request to the model
that was not made yet, or (`queueing.burst`, on channels whose people write in bursts) to a request that the model has
not begun to answer and that `withdrawing` takes back. A message that interrupts is written together with the stop of
the turn that it replaces.

Side events (`overheard`). An edit of a message whose turn has begun, a reaction, words to others (`Inbound.beside`)
start no turn: they are kept in the session's settings, together with the row that records them, and removed by the
transaction that stores the next message (`Carrying`). The author of each part of a message is its `Provenance`, stored
in its row.

Questions (`questions`, `approvals`). A turn that asks (an approval, `ask_user`) parks: the question is a step on disk
before it is shown, and the turn's time stands still. `/approve`, `/deny`, a key in the terminal or, for `ask_user`, the
person's next message answers that step and does not enter the queue. After a restart the same code runs to the same
step and waits again. Open questions are read from the disk before a channel opens, because an answer may arrive before
its turn runs. `approvals` answers with a `Consent` for one digest (`goclaw.toolkit`): by a stored rule or from the
question.

Pauses (`pausing`). The order to pause a turn is on disk before it is confirmed. The turn passes a gate before each
request and each call and parks there as at a question, but waits for a signal.

Text of the turn. Text beside tool calls is a delivery of its own, committed with the answer's step (`interim`): at
most six a minute and chat, the rest is put in front of the next one. Reminders (`reminding`) are what the runtime
tells the model at the end of a request, in one block (`Request.reminder`; each wire puts it last, behind its cache
marks), never stored. A tool's own reminder (`ToolSpec.reminder`) follows from the journaled results of the previous
answer, so that a crash loses none. Further ones: `ToolContext.reminders.add` for the turn,
`Session.reminders.add/remove` (from `Contexts.session`) until removed; both are in memory only, so add them again at a
start. Each has an id, a tier, a pause and a cap (`goclaw.toolkit.reminders`). Summaries of mementos (`remembering`)
accompany every request as material and are not stored either: the person's own and the shared ones, in a group only
the shared ones.

Artifacts (`artifacts`). A file that a tool keeps for people (`ctx.attach`) is a blob and a note in the row of its
result (`goclaw.messages`); no request contains it. It lives as long as the row: the sweep in `media`, backup and
forgetting respect it. A terminal fetches it when a card is opened (`AskArtifact`, only from the session's own rows); a
chat gets it as a file that is promised together with the answer (`Capabilities.artifacts`).

Background work. `maintenance` makes checkpoints, notes and owed summaries (`summary_retries`) between turns; none of it
is shown in a chat. In a small window it also decides when an owed summary is made, because the model that writes it is
the one that answers. `media` removes files that no context refers to, every five minutes. `stuck` reports turns without
progress and ends none.

Forgetting (`forgetting`) is the only way in which rows of a transcript are deleted. It takes the session's lane first,
so that no turn writes meanwhile. Deletions outside the database are owed in the same transaction: files, and the
memory index, which compares where conversations begin.

Modes (`modes`). A call's approval rule depends on its row in the table of `goclaw.access`, the session's mode
(evaluated at every use) and `policy`; it is evaluated before the call and again right before it runs. A context
remembers that it was in plan mode: tools stand at the beginning of a request's cached prefix, and leaving plan mode
must not invalidate it a second time.

Agents (`agents`). A task for an agent runs `run_turn` once more for a window of its own (`agent_run`: the hierarchy
and what is shared). Its turn is a `NestedTurn`: each step is a step of the person's turn under a longer name
(`tool:2:<call id>/model:1`), so that /stop, parking and crashes need no code of their own. The tool is idempotent and
awaited to its end (`Tool.runs_steps`). Actor and mode are the person's; each selection of tools above the agent
narrows its own. A background agent is a job of `goclaw.tasks.room` whose steps belong to no message; the next start
forgets them (`forget_loose`). A worktree (`goclaw.tools.worktree`, behind `goclaw.toolkit.spawning.WorkPlace`) is
named by the agent's id, so that a repeated call finds it without a journal step. `AgentRun.workspace` is a `Workspace`
opened within the person's, `ToolContext.home` the person's. Exported tools (`goclaw.tools.exported`) are ordinary
calls that run `agents` once more or make one call of another tool as a step of the turn (`forwarding`).

External callers (`external_runs`). A call over MCP runs in a turn that no message began (`goclaw.servers.mcp.tools`
enters it for each call): an `AgentRun` without a conversation is above its agents, and an `ExternalCaller` answers
questions in place of the person. Its steps are forgotten when it ends, or by the next start.

Services for tools (`agent_services`, `goclaw.toolkit.services`): one object for each agent at work, which the steps of
its turn use, too. `sampling` answers a tool's request to a model (`ToolContext.sample`; a server's sampling:
`goclaw.tools.mcp_sampling`): no journal step, no tools, charged to the turn. `command_port`, implemented by
`goclaw.app`, runs slash commands for the agent: the same commands, rights and audit as for the person, restricted to
`tools.command.allowed`, and none that waits for the turn or decides about it.
"""

"""Sessions: the state of conversations, apart from their turns.

`state` holds a session in memory, `models` knows which models answer, `modes` what asks for approval.

Queue modes (`modes`). A message that arrives during a turn is a row of `inbox` like any other. A message that joins
the turn is settled in the transaction that writes its row (`join:<message id>`), right before a request to the model
that was not made yet, or (`modes.burst`, on channels where people write in bursts) to a request that the model has
not begun to answer and that `Withdrawal` takes back. A message that interrupts is written together with the stop of
the turn that it replaces.

Side events (`overheard`). An edit of a message after its turn has begun, a reaction, words to others (`Inbound.beside`)
start no turn: they are kept in the session's settings, together with the row that records them, and removed by the
transaction that stores the next message (`Carrying`). The author of each part of a message is its `Provenance`, stored
in its row.

Pauses (`pausing`). The order to pause a turn is on disk before it is confirmed. The turn passes a gate before each
request and each call and parks there as at a question, but waits for a signal.

Reminders (`reminding`) are notes from the runtime to the model at the end of a request, in one block
(`Request.reminder`; each wire puts it last, after its cache marks), never stored. A tool's own reminder
(`ToolSpec.reminder`) follows from the journaled results of the previous answer, so that a crash loses none. Further
ones: `ToolContext.reminders.add` for the turn, `Session.reminders.add/remove` (from `Contexts.session`) until removed;
both are in memory only, so add them again at a start. Each has an id, a tier, a pause and a cap
(`toolkit.services`). Summaries of mementos accompany every request as material and are not stored either: the
person's own and the shared ones, in a group only the shared ones.

Forgetting (`forgetting`) is the only way to delete rows of a transcript. It takes the session's lane first,
so that no turn writes meanwhile. Deletions outside the database are owed in the same transaction: files, and the
memory index, which compares where conversations begin. `MediaSweep` removes files that no message refers to, and the
oldest pictures and copies of named files beyond a bound.

Modes (`modes`). A call's approval rule depends on its row in the table of `auth.access`, the session's mode
(evaluated at every use) and `policy`; it is evaluated before the call and again right before it runs. A context
remembers that it was in plan mode: tools stand at the beginning of a request's cached prefix, and leaving plan mode
must not invalidate it a second time.
"""

"""Durable turns: the journal, one lane per session, the outbox. See `base` for the seam.

Journal. A turn is a row of `inbox` and named steps (`user`, `model:1`, `tool:1:<call id>`). The key of a tool step
holds the number of the answer, because some models reuse a call id within one turn. A step's outcome and its transcript
rows are one transaction. After a crash the same code runs again and reads the recorded steps back. A tool that must not
run twice has an intent on disk before it starts; after a crash in between, the model learns that the outcome is
unknown. A step's record is completed even while its turn is being stopped: the disk is never ahead of memory. An answer
without tool calls is held in memory, to be one transaction with the end; a crash before costs one more request.

Edits. An edited message (`Inbound.edited`, same `ref`) replaces the body of its older version while that one waits
(`Engine.replace`): one UPDATE together with the row that records the edit, so that a redelivered earlier edit changes
nothing. A message is never replaced once its turn has begun; an edit never starts a turn, runs a command or answers.

Outbox. The answer is a row of `deliveries`, committed in the transaction that ends the turn; this is why the outbox
belongs to this room. Before a channel sends a part the row is `sending`, on disk; of the first part already with the
promise, where the channel would ask its service immediately (`Capabilities.sends_at_once`). The message id of a part
that arrived is in the row's `progress`. After a crash or a failed attempt the delivery resumes after the recorded
parts. A row found `sending` has one part that may have arrived: that part is sent once more, marked. No other window
exists in which a message can arrive twice; deliveries that may be repeated unseen (an edit, a reaction) open none. A
delivery that edits an earlier one names it (`Delivery.of`); only such a delivery may change a message that asks a
question.

Disk. A write that the disk refuses raises `DiskError` and holds up its lane, its chat or its poll loop, which retry
(`lanes`, `core.supervise`); completed work waits in memory for its record. `machine_faults` informs the people
affected.

Stop. `/stop` cancels the turn before anything is written, journals the stop, and is answered after at most 0.15 s,
whether the turn has ended or not. The lane is free only when the turn has ended. Code of a turn is never abandoned,
unlike code of tools (`goclaw.common.health`), which is why two turns of a session cannot overlap.

Clocks. Order rests on row numbers, durations on clocks that cannot be set (`Clock.monotonic`, and `awake_or_not`, which
also counts while the machine sleeps). When the wall clock is set, `machine_faults` shifts the stamps on disk with it.
"""

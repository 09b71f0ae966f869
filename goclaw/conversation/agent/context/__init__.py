"""The model's view of a conversation: `window` holds it, `model_messages` keeps it valid, `compaction` makes it fit.

The window mirrors rows of the store, so that a reloaded window equals one that was extended message by message.
`model_messages` makes it valid for every provider after any crash (each tool call has one result, in the answer's
order), and escapes the runtime's own marks in every text that did not come from the runtime.

Compaction frees room from the first source that works: checkpoint, summary model, main model, a placeholder line. A
summary that no source could make is owed; `compaction.summary_retries` makes it later from the original
messages. In a small window (`budget`) a compaction asks no model at all: its summary is owed from the start.
"""

"""What the model is shown of a conversation: `window` holds it, `repair` keeps it valid, `compaction` makes it fit."""

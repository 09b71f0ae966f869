"""Compaction of sessions: when a window is compacted, the model for it, and the work that is left for later.

`compacting` frees room in a session's window and `summaries` tries the models in order, Ollama first; the texts
themselves are made by `agent.context`. A summary that no model could write is owed, and `summary_retries` makes
it later from the original messages. `maintenance` makes checkpoints, notes and owed summaries between turns;
none of it is shown in a chat. In a small window it also decides when an owed summary is made, because the model that
writes it is the one that answers.
"""

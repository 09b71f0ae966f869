"""Conversations that go on.

`service` runs turns and answers questions about sessions, `turn` is one turn's journaled steps, `state` holds what a
conversation needs in memory, `models` knows which models answer.
"""

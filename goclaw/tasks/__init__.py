"""Background tasks: commands and agents that go on when the call that started them has ended."""

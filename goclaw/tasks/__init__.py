"""Background tasks: commands that go on when the call that started them has ended."""

"""The steps of `goclaw setup`: each asks, tests the answer, and returns it. Only `writing` writes, at the end."""

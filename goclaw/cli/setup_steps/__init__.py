"""The steps of `goclaw setup`: each asks, tries the answer out, and returns it. Only `writing` writes, at the end."""

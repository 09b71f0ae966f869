"""How much of the evidence the search over conversations finds: `python -m benchmarks.recall`, see the README."""

"""The daemon under load and in bad weather for half an hour: does anything grow, stick, get lost or come twice?

`python -m benchmarks.soak --minutes 30 --seed 1`; see benchmarks/README.md. The short form is
`tests/acceptance/test_soak.py`. `script` is what happens, made from the seed before anything runs; `people`, `model`,
`telegram` and `terminal` do it; `watch` measures the daemon; `books` and `verdict` say what became of it.
"""

"""The store in a schema of a Postgres database. Imported only where `store` names one.

One process at a time: it holds an advisory lock on the connection that writes, so that a second one is refused, and
nothing is written without it. `schema` makes the tables, `faults` has the words for what goes wrong.

Every commit is flushed, asked for or not: Postgres may lose its last commits in a crash while this process lives on
with the confirmation. A commit during which the connection is lost is looked up by the number of its transaction: it is
neither repeated nor given up before that is known.
"""

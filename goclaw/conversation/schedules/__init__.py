"""Schedules: messages and tasks that are due at a time, each run exactly once.

A job is a row of `schedules` with the moment of its next run. One loop (`scheduler`) sleeps until the earliest of them.
A run is one transaction: the run's row, unique in job and due time, the thing it starts (a row of the inbox or the
outbox), and the job's next moment. So a crash leaves all of it or nothing, and lanes and outbox take it from there.

`times` reads and writes moments as people do, `jobs` is the stored data and computes when a job is due, `rows` the
statements, `requests` what people and agents ask for, `orders` its answers in words, `quiet_hours` holds messages back
and sends a text word for word.
"""

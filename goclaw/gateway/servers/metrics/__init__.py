"""Metrics: numbers about the daemon at `/metrics` on the HTTP listener, in the text format of Prometheus.

`counting` watches events of turns and requests to models, `families` gives the numbers their names, `serving` says who
may read them. Loaded through the catalogue where the configuration has `http.metrics`. No label names a user, a session
or a chat, and each label has a bounded number of values.
"""

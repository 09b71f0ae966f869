"""Pages of the web as text: fetched through the URL guard, made into Markdown, kept for a while.

`base` has the port that tools use, `service` the real thing.
"""

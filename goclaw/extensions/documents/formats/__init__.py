"""Readers of documents, one family of formats a file. They run in the worker, and mostly on the standard library."""

"""Shorter output of well-known commands, for models with small windows: one file per family of commands.

It works on texts only: it runs and stores nothing. Above: the tools that run commands. Unrecognised lines stay
unchanged.
"""

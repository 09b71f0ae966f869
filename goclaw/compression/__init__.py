"""Shortens what well-known commands say, for models with little room: one file per family of commands.

It knows texts only: it runs nothing, and keeps nothing. Above: the tools that run commands. What it does not recognise
stays as it is, line by line.
"""

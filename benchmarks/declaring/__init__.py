"""Declaring one small agent with GoClaw and with others: lines, imported names, and what is said of mistakes."""

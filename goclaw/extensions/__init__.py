"""Extensions: what not everybody needs, each a folder of its own. The catalogue names their parts, as a plugin's.

An extension may import every room; nothing imports an extension (import-linter), and no extension another one. Their
parts are of the kinds that installed packages add (`catalog.KINDS`), or of those that the catalogue says.
"""

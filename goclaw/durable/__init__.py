"""State that survives a kill: the journal, lanes and outbox (`engine`), and the database (`store`)."""

"""The embedder `sentence-transformers`: a model on this machine, in a process of its own (`worker`)."""

"""Clauses MODE-1, MODE-3, CACHE and LIFE, on a whole engine: its scheduler, its prefix cache and its allocator."""

"""Faults of captured decode graphs: what was frozen, shared or forgotten when they were captured or replayed."""

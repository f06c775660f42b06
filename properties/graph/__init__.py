"""Decode passes that run from captured graphs: what a replay must equal, leave alone, and never do (GRAPH-1..4)."""

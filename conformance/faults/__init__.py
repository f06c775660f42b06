"""Seeded faults: each is a patch of one seam, and says which property must detect it, and why."""

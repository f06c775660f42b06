"""Seeded faults of level Core."""

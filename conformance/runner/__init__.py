"""Runs one certification in a process of its own: pytest over items, events as JSON lines on standard output."""

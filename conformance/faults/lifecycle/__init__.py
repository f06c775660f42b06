"""Faults of level Lifecycle: in what the plugin files, plans and records of requests, and in what the engine frees."""

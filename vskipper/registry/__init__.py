"""Policies by name, and what is asked of their class before one is made."""

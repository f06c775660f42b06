"""Hypothesis strategies for plans, tapes, layouts and schedules, and the properties they feed."""

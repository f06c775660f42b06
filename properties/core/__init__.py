"""Properties of level Core, and cases that only they draw."""

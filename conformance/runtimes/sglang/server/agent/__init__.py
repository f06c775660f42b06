"""The suite's agent inside a server that the suite started: on the scheduler's own thread, and found by an entry point
that no other server has on its path."""

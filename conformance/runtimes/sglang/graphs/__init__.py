"""The engine's decode graphs under test: captured with routes, streams and padding that the suite can reach."""

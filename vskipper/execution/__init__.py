"""The executor of a routed layer, independent of any engine."""

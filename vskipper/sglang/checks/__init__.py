"""What is refused before an engine starts: arguments, GPUs, models and policies that cannot be served together."""

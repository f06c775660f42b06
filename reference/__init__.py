"""The oracle: plain PyTorch, row by row, obvious at a glance. Imports torch alone."""

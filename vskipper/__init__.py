"""Per-token layer skipping for serving engines, with the suite that proves it."""

__version__ = "0.1.0"

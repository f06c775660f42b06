"""A policy held to what it declares: in every call, and in passes of its own."""

"""vSkipper's executor and kernels on real module weights with a paged pool, without an engine."""

"""The GEMMs of a routed layer in real models: N, K of gate-up and down, of the MLP and of FlexiDepth's projector."""

from __future__ import annotations

# hidden size, intermediate size, heads, KV heads, head size
MODELS = {
    "llama-3-8b": (4096, 14336, 32, 8, 128),
    "qwen3-8b": (4096, 12288, 32, 8, 128),
    "qwen3-4b": (2560, 9728, 32, 8, 128),
    "smollm2-135m": (576, 1536, 9, 3, 64),
}


def gemms() -> list[tuple[int, int]]:
    """N, K, without repetition; the router's r = hidden / 16 among them."""
    shapes = []
    for hidden, intermediate, *_ in MODELS.values():
        for width in (intermediate, intermediate // 16):
            shapes += [(2 * width, hidden), (hidden, width)]
        shapes += [(hidden // 16, hidden), (hidden, hidden // 16)]
    return sorted(set(shapes))


def counts(capacity: int) -> list[int]:
    """Counts at the edges of a capacity."""
    return sorted({0, 1, capacity // 2, capacity - 1, capacity})

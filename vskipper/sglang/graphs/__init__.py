"""Decode graphs in two variants, dense and routed: captured side by side, replayed as the batch's requests ask."""

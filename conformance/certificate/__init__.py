"""What a certificate holds, how it is judged, written, shown and re-checked."""

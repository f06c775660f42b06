"""Everything that knows SGLang; nothing else in vSkipper does."""

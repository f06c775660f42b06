"""SGLang itself on a GPU."""

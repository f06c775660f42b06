"""Starting SGLang with the plugin: what `vskipper serve` runs, asks of the server, and refuses before it starts."""

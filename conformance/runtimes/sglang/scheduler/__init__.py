"""SGLang's own Scheduler in this process: prefix cache, chunks, retraction and overlap, its event loop untouched."""

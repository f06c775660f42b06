"""Whether this SGLang hands out pages of KV with Triton kernels on every device, so that a CPU needs the interpreter.

Read from the source: the answer is needed before SGLang, and with it Triton, is imported.
"""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_FILES: Final = ("srt/mem_cache/allocator/paged.py", "srt/mem_cache/allocator.py")
_CLASS: Final = "PagedTokenToKVPoolAllocator"
_METHODS: Final = ("alloc_extend", "alloc_decode")


def pages_need_interpreter() -> bool:
    """False where there is no SGLang or it chooses a way without Triton by itself."""
    spec = find_spec("sglang")
    folders = spec.submodule_search_locations if spec is not None else None
    files = (Path(folder) / file for folder in folders or () for file in _FILES)
    file = next((file for file in files if file.is_file()), None)
    return file is not None and launches_always(file.read_text(encoding="utf-8"))


def launches_always(source: str) -> bool:
    """Whether the paged allocator in this module's text launches a kernel that no condition guards."""
    classes = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == _CLASS)
    methods = (node for each in classes for node in each.body if isinstance(node, ast.FunctionDef))
    return any(_launch(statement) for node in methods if node.name in _METHODS for statement in node.body)


def _launch(statement: ast.stmt) -> bool:
    """`kernel[grid](...)` as a statement of its own."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript)

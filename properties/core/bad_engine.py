"""SGLang of shapes that vSkipper does not know, or knows and cannot serve: a small tree with its signatures, spoilt
(IN-1)."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from zipfile import ZipFile

from properties.core.refusal import Start
from vskipper.sglang.probe import probe_tree, require

# path in the folder `sglang` to text
Files = dict[str, str]
Spoil = Callable[[Files, int], Files]
# what is needed by every engine, and for graphs: a file, what stands there, and what stands there in no known version
_CHANGED = (
    ("srt/models/llama.py", "self, weights", "self, names, weights"),
    ("srt/models/llama.py", "[self.q_size, self.kv_size, self.kv_size]", "[self.kv_size, self.q_size, self.kv_size]"),
    ("srt/mem_cache/memory_pool.py", "loc_info, cache_k, cache_v", "loc_info, cache_kv"),
    ("srt/layers/layernorm.py", "self, x, residual=None", "self, x, scale, residual=None"),
    ("srt/layers/rotary_embedding/base.py", "positions, query, key", "query, key, positions"),
    ("srt/environ.py", "def get(self)", "def get(self, default)"),
)
_CHANGED_FOR_GRAPHS = (
    ("srt/model_executor/runner/decode_cuda_graph_runner.py", "_make_graph_key", "_graph_key"),
    ("srt/model_executor/runner/shape_key.py", "variant_label", "label"),
    ("srt/model_executor/runner/prefill_cuda_graph_runner.py", "can_run_graph", "admits"),
    ("srt/layers/attention/triton_backend.py", "kv_indptr", "offsets"),
)
# each needed, whatever else is there
_FILES = ("srt/models/llama.py", "srt/mem_cache/memory_pool.py", "srt/layers/layernorm.py", "srt/environ.py")


@cache
def small_engine() -> Files:
    """A whole one: the signatures of SGLang 0.5.23 and nothing else."""
    text = (Path(__file__).parent / "small_engine.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^### (\S+)\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL))


def start_engine(files: Files, *, graphs: bool = False) -> None:
    """What is asked of an engine before it is patched."""
    with tempfile.TemporaryDirectory() as name:
        for path, text in files.items():
            file = Path(name) / "sglang" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        require(probe_tree(Path(name), needed_only=True), graphs=graphs)


def _start(seed: int, spoil: Spoil, graphs: bool = False) -> None:
    start_engine(spoil(dict(small_engine()), seed), graphs=graphs)


def _changed(files: Files, seed: int, changes: tuple[tuple[str, str, str], ...] = _CHANGED) -> Files:
    path, before, after = changes[seed % len(changes)]
    if before not in files[path]:
        raise ValueError(f"{path} has no {before!r}")
    return files | {path: files[path].replace(before, after)}


def _file_lost(files: Files, seed: int) -> Files:
    return {path: text for path, text in files.items() if path != _FILES[seed % len(_FILES)]}


def _file_broken(files: Files, seed: int) -> Files:
    return files | {_FILES[seed % len(_FILES)]: "class (\n" * (1 + seed)}


def _without_plugins(files: Files, seed: int) -> Files:
    return {path: text for path, text in files.items() if path != "srt/plugins/__init__.py"}


def _wheel_cut(seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        wheel = Path(name) / "sglang.whl"
        with ZipFile(wheel, "w") as archive:
            for path, text in small_engine().items():
                archive.writestr(f"sglang/{path}", text)
        whole = wheel.read_bytes()
        wheel.write_bytes(whole[: seed * 97 % len(whole)])
        require(probe_tree(wheel, needed_only=True))


ENGINES: dict[str, Start] = {
    "engine_that_is_not_there": partial(_start, spoil=lambda files, seed: {}),
    "engine_without_plugins": partial(_start, spoil=_without_plugins),
    "engine_of_another_shape": partial(_start, spoil=_changed),
    "engine_that_captures_otherwise": partial(
        _start, spoil=partial(_changed, changes=_CHANGED_FOR_GRAPHS), graphs=True
    ),
    "engine_without_a_file": partial(_start, spoil=_file_lost),
    "engine_with_a_broken_file": partial(_start, spoil=_file_broken),
    "engine_in_a_cut_wheel": _wheel_cut,
}

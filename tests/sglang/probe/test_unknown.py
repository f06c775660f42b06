"""A shape that was never seen is `unknown`: at every seam that vSkipper relies on, in every part of its shapes."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

import pytest

from tests.sglang.probe.test_shapes import BETWEEN
from tests.sglang.probe.trees import NEW, OLD, SPECS, Files, changes, edited, seam, tree
from vskipper.sglang.probe import UNKNOWN
from vskipper.sglang.probe.seam import Need, SeamSpec, Shape, probe
from vskipper.sglang.probe.tree import Tree

POOL = "srt/mem_cache/memory_pool.py"
STREAMER = "srt/managers/scheduler_components/output_streamer.py"
NEWER_LOCATION = "class KVWriteLoc:\n    def for_batch(cls): ...\n\n", "requires_physical_write_loc = True\n\n"

# seam, a tree with a known shape of it, the tree changed
MUTANTS: list[tuple[str, Files, Files]] = list(changes("mutants"))
# what an older shape must not have beside it
ADDITIONS: list[tuple[str, Files, Files]] = [
    *changes("additions"),
    *[
        (name, files, edited(files, POOL, "class MHA", f"{added}class MHA"))
        for name, word, files in BETWEEN
        for added in NEWER_LOCATION
        if word == "slots-or-location"
    ],
    *[
        (name, files, edited(files, STREAMER, "class ", "is_request_level_customized_info_key = 1\n\nclass "))
        for name, word, files in BETWEEN
        if word == "slice-accumulated"
    ],
]

RELIED_ON = [spec for _, spec in SPECS.values() if spec.need != Need.RECORDED]


@pytest.mark.parametrize(("name", "files", "changed"), MUTANTS + ADDITIONS)
def test_another_shape_is_unknown(name: str, files: Files, changed: Files) -> None:
    assert seam(name, files).word != UNKNOWN
    found = seam(name, changed)
    assert found.word == UNKNOWN and not found.served
    assert found.where.startswith("sglang/") and found.detail and found.expected


def test_every_seam_relied_on_has_a_mutant() -> None:
    assert {name for name, *_ in MUTANTS} == {spec.name for spec in RELIED_ON}


# where another name makes an older shape of it, that is served too or is not
OLDER = {
    ("request-construction", "key-and-salt", "key"),
    ("graph-key", "label-attention-variant", "label"),
    ("graph-key", "label-dsa-variant", "label"),
    ("flashinfer-metadata", "wrappers-made-apart", "wrappers"),
}
UNSERVED = {
    ("chunk-resumption", "by-insertion"),
    ("decode-runner", "batch-sizes-early"),
    ("fa3-metadata", "lengths"),
}


def test_no_name_can_change_unseen() -> None:
    """Every name of the trees, one by one: a seam keeps its word, or is no longer served."""
    seen: dict[tuple[str, str], set[int]] = {}
    for spec, files, shape in _known():
        for path, renamed in _renamed(spec, files):
            found = probe("", spec, renamed)
            transition = (spec.name, shape.word, found.word)
            assert found.word in (shape.word, UNKNOWN) or transition in OLDER or not found.served, (path, transition)
            assert found.served or found.word == UNKNOWN or (spec.name, found.word) in UNSERVED, (path, transition)
            seen.setdefault((spec.name, shape.word), set()).update(_failing(shape, renamed))
    for name, files, changed in ADDITIONS:
        shape = _shape_of(SPECS[name][1], files)
        seen[name, shape.word] |= _failing(shape, tree(changed))
    for spec, _, shape in _known():
        unseen = set(range(len(shape.conditions))) - seen[spec.name, shape.word]
        assert not unseen, f"conditions {sorted(unseen)} of {shape.word} ({spec.name}) have never failed"


def _known() -> Iterator[tuple[SeamSpec, Files, Shape]]:
    """Every served shape of every seam relied on, in a tree that has it."""
    trees = [(spec.name, files) for spec in RELIED_ON for files in (OLD, NEW)]
    trees += [(name, files) for name, _, files in BETWEEN if SPECS[name][1] in RELIED_ON]
    for name, files in trees:
        spec = SPECS[name][1]
        shape = _shape_of(spec, files)
        if shape.served:
            yield spec, files, shape


def _shape_of(spec: SeamSpec, files: Files) -> Shape:
    seen = tree(files)
    return next(shape for shape in spec.shapes if all(condition(seen).holds for condition in shape.conditions))


def _failing(shape: Shape, seen: Tree) -> set[int]:
    """Numbers of the conditions that do not hold of the tree."""
    return {number for number, condition in enumerate(shape.conditions) if not condition(seen).holds}


def _renamed(spec: SeamSpec, files: Files) -> Iterator[tuple[str, Tree]]:
    """The tree with one name, at one place of a file that the probe reads, made longer."""
    asked: set[str] = set()
    seen = tree(files, asked)
    for condition in (condition for shape in spec.shapes for condition in shape.conditions):
        condition(seen)
    for path in sorted(asked & files.keys()):
        for name in re.finditer(r"[A-Za-z_]\w*", files[path]):
            if not keyword.iskeyword(name[0]):
                yield path, tree(files | {path: f"{files[path][: name.end()]}_x{files[path][name.end() :]}"})

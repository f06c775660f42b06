"""An engine's build leaves the collection of garbage as it was."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
import torch

from conformance.runtimes.sglang import process
from conformance.runtimes.sglang.garbage import tidied_before
from conformance.runtimes.sglang.process import capture_anew, prepare
from tests.engine import needs_sglang


@pytest.mark.parametrize("automatic", [True, False])
def test_collections_are_as_before_after_a_build_that_failed(automatic: bool) -> None:
    try:
        if not automatic:
            gc.disable()
        with pytest.raises(ValueError, match="no engine"), tidied_before():
            assert not gc.isenabled()
            raise ValueError("no engine")
        assert gc.isenabled() == automatic
    finally:
        gc.enable()


def test_what_an_engine_leaves_out_while_it_is_built_is_left_in() -> None:
    before = gc.get_freeze_count()
    with tidied_before():
        gc.freeze()
        assert gc.get_freeze_count() == before
        gc.unfreeze()
    assert gc.get_freeze_count() == before


def test_all_is_tidied_once_before_anything_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: done.append("collected"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("emptied"))
    with tidied_before():
        assert done == ["collected", "emptied"]
        assert gc.collect() == 0
        torch.cuda.empty_cache()
        gc.collect(1)
    assert done == ["collected", "emptied"]


@pytest.mark.parametrize(
    ("holder", "capture"),
    [("decode_cuda_graph_runner", "init_decode_cuda_graph"), ("graph_runner", "init_device_graphs")],
)
def test_graphs_are_let_go_of_before_others_are_captured(
    holder: str, capture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the engine's own are none of this
    monkeypatch.setattr(process, "forget_shared", lambda: None)
    runner = SimpleNamespace(**{holder: "old"})
    held: list[object] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: held.append(getattr(runner, holder)))
    setattr(runner, capture, lambda: setattr(runner, holder, "new"))
    capture_anew(runner)
    assert held == [None] and getattr(runner, holder) == "new"


@needs_sglang
def test_what_was_imported_is_left_out() -> None:
    prepare()
    assert gc.get_freeze_count() > len(gc.get_objects())

"""An engine's build leaves the collection of garbage as it was."""

from __future__ import annotations

import gc

import pytest

from conformance.runtimes.sglang.garbage import collected_by_name
from conformance.runtimes.sglang.process import prepare
from tests.engine import needs_sglang


@pytest.mark.parametrize("automatic", [True, False])
def test_collections_are_as_before_after_a_build_that_failed(automatic: bool) -> None:
    try:
        if not automatic:
            gc.disable()
        with pytest.raises(ValueError, match="no engine"), collected_by_name():
            assert not gc.isenabled()
            raise ValueError("no engine")
        assert gc.isenabled() == automatic
    finally:
        gc.enable()


def test_what_an_engine_leaves_out_while_it_is_built_is_left_in() -> None:
    before = gc.get_freeze_count()
    with collected_by_name():
        gc.freeze()
        assert gc.get_freeze_count() == before
        gc.unfreeze()
    assert gc.get_freeze_count() == before


@needs_sglang
def test_what_was_imported_is_left_out() -> None:
    prepare()
    assert gc.get_freeze_count() > len(gc.get_objects())

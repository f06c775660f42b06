"""Each kind of bad input is refused, and only for what is bad in it."""

from __future__ import annotations

from itertools import chain

import pytest

from properties.core.bad_engine import small_engine, start_engine
from properties.core.bad_gpu import Machine
from properties.core.bad_input import GROUPS
from properties.core.refusal import check_refused
from properties.violation import Violation
from vskipper.errors import InputError

KINDS = dict(chain.from_iterable(group.items() for group in GROUPS.values()))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_refused_whatever_the_seed(kind: str) -> None:
    for seed in (0, 1, 2, 3, 998, 999):
        check_refused(kind, KINDS[kind], seed)


def test_the_names_of_kinds_are_apart() -> None:
    assert len(KINDS) == sum(map(len, GROUPS.values()))


def test_the_engine_and_the_gpu_that_are_spoilt_are_served_unspoilt() -> None:
    start_engine(small_engine(), graphs=True)
    Machine().start()
    for capability, backend in (((8, 9), "triton"), ((9, 0), "fa3"), ((10, 0), "flashinfer")):
        Machine(capability=capability, arguments={"attention_backend": backend, "kv_cache_dtype": "fp8_e4m3"}).start()


def test_what_is_no_refusal_is_told_apart() -> None:
    def crash(seed: int) -> None:
        raise KeyError(seed)

    def two_lines(seed: int) -> None:
        raise InputError("what", where="here", got="a\nb", expected="one line")

    def no_words(seed: int) -> None:
        raise InputError("what", where="here", got=" ", expected="words")

    for start, reason in (
        (crash, "crash_in_place_of_refusal"),
        (two_lines, "refusal_of_many_lines"),
        (no_words, "refusal_without_words"),
        (lambda seed: None, "bad_input_accepted"),
    ):
        with pytest.raises(Violation) as raised:
            check_refused("kind", start, 7)
        assert raised.value.reason == reason

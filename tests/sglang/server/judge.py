"""What a request's answer must be: the reference running it alone, with the plan that the answer states."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from conformance.runtimes.sglang.server.messages import Answer, Request, Summary
from conformance.runtimes.sglang.server.process import Server
from conformance.subjects import SubjectSpec, build_subject
from properties.compare import Envelope
from properties.lifecycle.case import NAME, Rules
from properties.lifecycle.reference_alone import Actions, both
from properties.lifecycle.routes import Modes, Plan, expected_routes
from properties.property import Subject
from reference.action import PROJECT_ONLY
from tests.sglang.server.load import POOL, tokens
from vskipper.sglang.config import EngineConfig

# requests of a load that are never taken off
STEADY = 80
# slots that the engine keeps back from a prompt
MARGIN = 8
# seconds
SOON = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Of one request. wrong: the numbers of tokens that the reference would not have said. ties: of those between which
    and its own the reference cannot tell in float32."""

    wrong: tuple[int, ...]
    ties: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """What a request's rows did by closed form. rows: that ran routed, by phase. skipped: PROJECT_ONLY rows of each
    routed layer, by phase. draws: what selection was drawn from, one of a kind."""

    rows: tuple[int, int]
    skipped: tuple[tuple[int, ...], tuple[int, ...]]
    draws: frozenset[object]

    def counts(self, layer: int) -> Counter[str]:
        """Rows by action at a routed layer, by its index."""
        skipped = sum(phase[layer] for phase in self.skipped)
        return Counter(RUN=sum(self.rows) - skipped, PROJECT_ONLY=skipped)

    def share(self, phase: int) -> float | None:
        """Of PROJECT_ONLY pairs, None where no row of the phase ran routed."""
        pairs = self.rows[phase] * len(self.skipped[phase])
        return sum(self.skipped[phase]) / pairs if pairs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """For a tiny model and random-skip's rules."""

    model: str
    rules: Rules

    @property
    def config(self) -> EngineConfig:
        served = self.rules.served()
        return EngineConfig(policy=NAME, settings=served.settings, mode=served.mode, seed=served.seed)

    def verdict(self, request: Request, answer: Answer, plan: Plan | None = None) -> Verdict:
        """Under `plan`, or the one that the answer states. Each token is judged after those that the server said."""
        subject = self._subject
        same, truth = (
            alone.answer(self._given(request, answer), self.routes(request, answer, plan)).logits[-len(answer.tokens) :]
            for alone in both(subject, self.rules.weights, "checkpoint")
        )
        error = Envelope.of_layers(subject.model.config.num_hidden_layers).bound(same, truth)
        behind = truth.amax(1) - truth[range(len(answer.tokens)), list(answer.tokens)]
        # both logits of a pair may be wrong by that much
        allowed = 2 * error * truth.abs().amax(1).clamp_min(1.0)
        wrong, close = (behind > allowed).tolist(), (behind > 0).tolist()
        numbers = range(len(answer.tokens))
        return Verdict(
            wrong=tuple(number for number in numbers if wrong[number]),
            ties=tuple(number for number in numbers if close[number] and not wrong[number]),
        )

    def routes(self, request: Request, answer: Answer, plan: Plan | None = None, beyond: int = 0) -> list[Actions]:
        """Of every row but that of the last token, which nothing follows, unless one beyond ran."""
        assert request.name is not None
        layers = len(self.routed_layers)
        given = self._given(request, answer, beyond)
        stated = _summary(answer).plan if plan is None else plan
        return expected_routes(self.rules, layers, request.name, given, Modes(plan=stated, prompt=len(request.tokens)))

    def tape(self, request: Request, answer: Answer, beyond: int = 0) -> Tape:
        """Of the rows that an answer took which was never taken off: those of cached positions did not run. beyond:
        rows that an overlapping engine runs of a request before it knows that it has ended, 0 or 1."""
        prompt = len(request.tokens)
        given, routes = self._given(request, answer, beyond), self.routes(request, answer, beyond=beyond)
        phases = (range(answer.cached, prompt), range(prompt, len(given)))
        ran = [[(position, routes[position]) for position in phase if routes[position] is not None] for phase in phases]
        prefill, decode = (
            tuple(
                sum(codes is not None and codes[layer] == PROJECT_ONLY for _, codes in rows)
                for layer in range(len(self.routed_layers))
            )
            for rows in ran
        )
        draws = {
            (given[position] if self.rules.by_token else request.name, position) for rows in ran for position, _ in rows
        }
        return Tape(rows=(len(ran[0]), len(ran[1])), skipped=(prefill, decode), draws=frozenset(draws))

    def check_shares(self, pairs: Sequence[tuple[Request, Answer]]) -> None:
        """What answers state is the tape's share, to the last bit, where the request was never taken off."""
        steady = [(request, answer) for request, answer in pairs if not answer.retractions]
        assert len(steady) >= STEADY
        for request, answer in steady:
            assert answer.summary is not None
            tape = self.tape(request, answer)
            stated = (answer.summary.prefill_share, answer.summary.decode_share)
            assert stated == (tape.share(0), tape.share(1)), request

    def check_pool(self, server: Server, *, flushed: bool) -> None:
        """A request is served that needs all slots but one or two: none is lost. flushed: once the engine has emptied
        its cache, which it does only while idle, and with it forgotten what it had lost."""
        if flushed:
            server.client.flush_cache()
        prompt = tokens(random.Random(flushed), POOL - MARGIN)
        request = Request(tokens=prompt, outputs=MARGIN - 2, name=f"whole-{flushed}")
        # with a slot too few it would wait for ever
        answer = replace(server.client, patience=SOON).generate(request)
        assert answer.cached == 0 and not self.verdict(request, answer).wrong
        assert server.alive()

    @property
    def routed_layers(self) -> tuple[int, ...]:
        """Of the model."""
        return self._subject.model.routed_layers

    @property
    def _subject(self) -> Subject:
        return build_subject(SubjectSpec(runtime="reference", model=self.model))

    def _given(self, request: Request, answer: Answer, beyond: int = 0) -> tuple[int, ...]:
        return (*request.tokens, *answer.tokens)[: len(request.tokens) + len(answer.tokens) - 1 + beyond]


def other(plan: Plan) -> Plan:
    """Each phase in its other mode."""
    prefill, decode = ("dense" if mode == "routed" else "routed" for mode in plan)
    return prefill, decode


def _summary(answer: Answer) -> Summary:
    assert answer.summary is not None
    return answer.summary

"""One server for a lifecycle property: requests go to it over HTTP, and what they are told is what is judged."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, Final

from conformance.runtimes.sglang.server.attended import Asked, Attended, forget
from conformance.runtimes.sglang.server.link import answer_of
from conformance.runtimes.sglang.server.messages import Answer, Request
from conformance.runtimes.sglang.server.wire import AgentError, Call, Commands, Due, Lost, Wanted
from properties.lifecycle.engine import FINISHED, Abort, Command, Control, History, Ran, Served, Submission
from properties.runtime import Model

# requests under way at once
MOST: Final = 64
# seconds between two looks at a request that has not reached the scheduler
LOOK: Final = 0.2
# until whoever asked has been answered, once the loop is idle
PATIENCE: Final = 60.0


class ServerLife:
    """Implements LifecycleSession. Newer versions take an empty key that comes over HTTP for none."""

    empty_keys = False

    def __init__(self, asked: Asked, server: Attended, model: Model) -> None:
        self._asked, self._server, self._link = asked, server, server.link
        self._sound = False
        self._link.call("open_life", model)
        self._sound = True

    def serve(self, served: Served) -> None:
        self._link.call("serve", served)

    def key_of(self, request: str) -> str | None:
        key: str | None = self._link.call("key_of", request)
        return key

    def outputs_of(self, request: str) -> tuple[int, ...]:
        outputs: tuple[int, ...] = self._link.call("outputs_of", request)
        return outputs

    def run(self, control: Control) -> History:
        sound, self._sound = self._sound, False
        threads = ThreadPoolExecutor(MOST)
        try:
            conversation = Conversation(self._server, control, threads)
            history = conversation.history()
        finally:
            threads.shutdown(wait=False)
        self._sound = sound
        return history

    def close(self) -> None:
        """A server that cannot be used again is stopped, and whoever still waits for it hears of that."""
        if not (self._sound and self._link.call("close_life")):
            forget(self._asked)


class Conversation:
    """One run: the agent asks what is due, and each of it is sent when the agent waits for it."""

    def __init__(self, server: Attended, control: Control, threads: ThreadPoolExecutor) -> None:
        self._client, self._link = server.server.client, server.link
        self._control, self._threads = control, threads
        self._due: tuple[Command, ...] = ()
        self._answers: dict[str, Future[Answer]] = {}
        self._others: list[Future[None]] = []

    def history(self) -> History:
        self._link.send(Call(name="run", arguments=()))
        while True:
            message = self._link.receive()
            if isinstance(message, Due):
                self._come(message.iteration)
            elif isinstance(message, Wanted):
                self._bring(self._due[message.number])
            else:
                history: History = answer_of(message)
                return self._told(history)

    def _come(self, iteration: int) -> None:
        commands = self._control(iteration)
        self._due = tuple(commands or ())
        self._link.send(Commands(commands=None if commands is None else self._due))

    def _bring(self, command: Command) -> None:
        """Send it, and see to it that it arrives: until then the agent says nothing."""
        sent = self._abort(command) if isinstance(command, Abort) else self._submit(command)
        while not self._link.poll(LOOK):
            if sent.done() and (error := sent.exception()) is not None:
                self._link.send(Lost(reason=f"{command}: {error!r}"))
                return

    def _submit(self, sent: Submission) -> Future[Answer]:
        request = Request(
            tokens=sent.tokens,
            outputs=sent.outputs,
            name=sent.name,
            logprobs=sent.logprobs,
            may_end=True,
            user_key=sent.user_key,
        )
        answer = self._answers[sent.name] = self._threads.submit(self._client.generate, request)
        return answer

    def _abort(self, gone: Abort) -> Future[None]:
        answer = self._threads.submit(self._client.abort, gone.name)
        self._others.append(answer)
        return answer

    def _told(self, history: History) -> History:
        """The run, with what those who asked were told in place of what the engine holds."""
        waiting: list[Future[Any]] = [*self._answers.values(), *self._others]
        left = wait(waiting, PATIENCE).not_done
        if left:
            names = [name for name, answer in self._answers.items() if answer in left]
            raise AgentError(f"no answer after {PATIENCE} s: {', '.join(names)}")
        return replace(history, requests={name: self._with_answer(ran) for name, ran in history.requests.items()})

    def _with_answer(self, ran: Ran) -> Ran:
        """One that did not end by itself was told of an error, or nothing."""
        if ran.finish not in FINISHED:
            return ran
        answer = self._answers[ran.name].result()
        told = answer.meta.get("vskipper")
        return replace(
            ran,
            outputs=answer.tokens,
            finish=answer.finish,
            cached=answer.cached,
            logprobs=answer.logprobs,
            told=told[0] if told else None,
        )

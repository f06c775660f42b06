"""`vskipper serve`: what it starts, when it says that it is ready, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import pytest
import torch

from conformance.runtimes.sglang.ports import free_port
from tests.engine import absent
from tests.signals import hear_all
from vskipper.cli import main
from vskipper.models import resolve

ROOT = Path(__file__).resolve().parents[2]
Start = Callable[..., "Served"]
Serve = Callable[..., "Ended"]


class Ended(NamedTuple):
    code: int
    out: str
    errors: str


class Served:
    """One `vskipper serve` in a folder of its own."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, port: int) -> None:
        self.process = process
        self.folder = folder
        self.port = port

    def told(self) -> dict[str, Any]:
        """What the fake server was started with."""
        told: dict[str, Any] = json.loads((self.folder / "told.json").read_text())
        return told

    def wait_until_started(self) -> None:
        while not (self.folder / "told.json").exists():
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)

    def ready(self) -> str:
        """The line that says so, once it is printed."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("vskipper: ready"):
                return line
        raise AssertionError(self.process.communicate()[1])

    def end(self, timeout: float = 60) -> tuple[int, str]:
        """Exit code and standard error."""
        _, errors = self.process.communicate(timeout=timeout)
        return self.process.returncode, errors

    def nothing_is_left(self) -> bool:
        return ends(self.told()["child"])


def ends(pid: int) -> bool:
    """Whether the process is gone within ten seconds; one that is only left to be collected is."""
    status = Path(f"/proc/{pid}/stat")
    for _ in range(200):
        with suppress(FileNotFoundError, ProcessLookupError):
            if status.read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.05)
                continue
        return True
    return False


@pytest.fixture
def start(tmp_path: Path, engine: Path) -> Iterator[Start]:
    """Start the command in a process, with the fake engine behind it."""
    with ExitStack() as stack:

        def run(*arguments: str, **fake: object) -> Served:
            port = free_port()
            process = subprocess.Popen(
                [sys.executable, "-m", "vskipper", "serve", *arguments, "--port", str(port)],
                cwd=tmp_path,
                env={**os.environ, **variables(tmp_path, engine, fake)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=hear_all,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return Served(process, tmp_path, port)

        yield run


@pytest.fixture
def serve(tmp_path: Path, engine: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Serve:
    """Run the command in this process to its end, with the fake engine behind it."""

    def run(*arguments: str, environment: dict[str, str] | None = None, **fake: object) -> Ended:
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(engine))
        monkeypatch.delitem(sys.modules, "sglang", raising=False)
        for name, value in (variables(tmp_path, engine, fake) | (environment or {})).items():
            monkeypatch.setenv(name, value)
        code = main.run(["serve", *arguments])
        return Ended(code, *capfd.readouterr())

    return run


def variables(folder: Path, engine: Path, fake: dict[str, object]) -> dict[str, str]:
    told = json.dumps({"folder": str(folder), **fake})
    return {"FAKE": told, "PYTHONPATH": os.pathsep.join([str(engine), str(ROOT)])}


@pytest.fixture(autouse=True)
def nothing_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("SGLANG_", "VSKIPPER_CONFIG"))]:
        monkeypatch.delenv(name)


STATIC = ("tiny-llama", "--policy", "static-depth", "--set", "ratio=0.5", "--device", "cpu")


def test_it_is_ready_once_every_scheduler_answers_and_ends_with_the_server(start: Start) -> None:
    delta = str(resolve("tiny-llama") / "flexidepth.safetensors")
    served = start(*STATIC, "--delta", delta, "--mode", "by-request", "--max-running-requests", "2", "--seed", "3")
    assert (
        served.ready() == f"vskipper: ready on http://127.0.0.1:{served.port}, policy static-depth, mode by-request\n"
    )
    told = served.told()
    assert told["arguments"][:2] == ["--model-path", str(resolve("tiny-llama"))]
    assert told["arguments"][-4:] == ["--max-running-requests", "2", "--port", str(served.port)]
    assert json.loads(told["environment"]["VSKIPPER_CONFIG"]) == {
        "policy": "static-depth",
        "settings": {"ratio": 0.5},
        "delta": delta,
        "routed_layers": None,
        "mode": "by-request",
        "seed": 3,
    }
    assert told["environment"]["SGLANG_EXTERNAL_MODEL_PACKAGE"] == "vskipper.sglang.models"
    assert told["environment"]["SGLANG_USE_CPU_ENGINE"] == "1"
    served.process.send_signal(signal.SIGTERM)
    assert served.end() == (0, "")
    assert served.nothing_is_left()


@pytest.mark.parametrize(
    ("number", "never"),
    [(signal.SIGINT, False), (signal.SIGTERM, True), (signal.SIGHUP, False)],
)
def test_a_signal_ends_everything_with_the_server_s_exit_code(start: Start, number: int, never: bool) -> None:
    served = start(*STATIC, end=5, never=never)
    served.wait_until_started() if never else served.ready()
    served.process.send_signal(number)
    assert served.end()[0] == 5
    assert served.nothing_is_left()


def test_a_second_signal_kills_a_server_that_does_not_end(start: Start) -> None:
    served = start(*STATIC, deaf=True)
    served.ready()
    served.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert served.process.poll() is None
    served.process.send_signal(signal.SIGTERM)
    assert served.end()[0] == 128 + signal.SIGKILL
    assert served.nothing_is_left()


def test_a_server_that_ends_by_itself_passes_its_code_and_words(serve: Serve, tmp_path: Path) -> None:
    ended = serve(*STATIC, "--no-such-argument", exit=7)
    assert ended == (7, "", "sglang: no such argument\n")
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["arguments"][-1] == "--no-such-argument"
    assert ends(told["child"])


def test_an_older_path_and_a_key_are_used(serve: Serve) -> None:
    # told to answer the right question alone, with another configuration: so the question was asked
    other = [{"vskipper": {"config": {"policy": "early-exit"}}}]
    port = str(free_port())
    ended = serve(*STATIC, "--port", port, "--api-key", "sesame", path="/get_server_info", key="sesame", states=other)
    assert ended.errors.startswith("vskipper: another configuration runs")
    assert serve(*STATIC, "--port", port, "--api-key", "other", key="sesame").errors.startswith("vskipper: no answer")


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ([], "the plugin does not run [http://127.0.0.1:{port}]: got no 'vskipper', expected the plugin in every"),
        ([{"load": 1}], "the plugin does not run"),
        ([{"vskipper": {"config": {"policy": "static-depth"}}}, {}], "the plugin does not run"),
        ([{"vskipper": {"config": {"policy": "early-exit"}}}], "another configuration runs [http://127.0.0.1:{port}]"),
        ([{"vskipper": {}}], "plugin configuration [http://127.0.0.1:{port}]"),
    ],
)
def test_a_server_without_the_policy_is_stopped(serve: Serve, tmp_path: Path, states: list[object], told: str) -> None:
    port = free_port()
    ended = serve(*STATIC, "--port", str(port), states=states)
    assert (ended.code, ended.out) == (2, "")
    assert ended.errors.startswith("vskipper: " + told.format(port=port))
    assert ended.errors.count("\n") == 1
    assert ends(json.loads((tmp_path / "told.json").read_text())["child"])


def test_a_taken_port_is_refused(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = serve(*STATIC, "--port", "1", "--port", str(port))
    assert ended.code == 2
    assert ended.errors.startswith(f"vskipper: no address [127.0.0.1:{port}]: got ")


BAD: list[tuple[tuple[str, ...], dict[str, str], str]] = [
    (("tiny-llama",), {}, "policy [the options]: got none"),
    (("--tp-size", "2", *STATIC), {}, "model [vskipper serve]: got --tp-size, expected MODEL before"),
    ((*STATIC, "--set", "ratio=0.6"), {}, "setting [--set]: got ratio twice"),
    ((*STATIC, "--config", "none.json"), {}, "configuration [none.json]: got [Errno 2]"),
    ((*STATIC, "--config", "list.json"), {}, "plugin configuration [list.json]: got list, expected a JSON object"),
    ((*STATIC, "--config", "twice.json"), {}, "plugin configuration [twice.json]: got seed twice in one object"),
    ((*STATIC, "--config", "odd.json"), {}, "unknown key [the options, odd.json]: got ratio"),
    ((*STATIC, "--config", "other.json"), {}, "a key is given twice [settings.ratio]: got 0.5 in the options, 0.25"),
    (STATIC, {"VSKIPPER_CONFIG": '{"policy": "early-exit"}'}, "a key is given twice [policy]: got 'static-depth' in"),
    (STATIC, {"VSKIPPER_CONFIG": '{"settings": 5}'}, "settings [VSKIPPER_CONFIG]: got 5, expected an object"),
    (STATIC, {"VSKIPPER_CONFIG": '{"settings.r": 5}'}, "unknown key [VSKIPPER_CONFIG]: got settings.r"),
    ((*STATIC, "--set", "seed=1", "--config", "true.json"), {}, "a key is given twice [settings.seed]: got 1 in"),
    (STATIC, {"VSKIPPER_CONFIG": "none.json"}, "VSKIPPER_CONFIG [none.json]: got [Errno 2]"),
    ((*STATIC, "--mode", "fast"), {}, "mode [the options]: got 'fast', expected dense, routed, by-request"),
    ((*STATIC, "--routed-layers", "2-x"), {}, "routed layers [--routed-layers]: got 2-x"),
    ((*STATIC, "--routed-layers", "9-3"), {}, "routed layers [--routed-layers]: got 9-3"),
    (("/none", *STATIC[1:]), {}, "model [/none]: got no such folder, expected a model's folder"),
    (("nope", *STATIC[1:]), {}, "model [nope]: got no such folder, expected a model's folder, a hub's owner/name or"),
    (("a/b/c", *STATIC[1:]), {}, "model [a/b/c]: got no such folder"),
    (("../a", *STATIC[1:]), {}, "model [../a]: got no such folder"),
    (("list.json", *STATIC[1:]), {}, "model [list.json]: got a file, no folder"),
    (("", *STATIC[1:]), {}, "no value [MODEL]: got '', expected MODEL"),
    ((*STATIC, "--tp", "2"), {}, "tensor parallelism is not supported [--tp-size]: got 2, expected 1"),
    ((*STATIC, "--enable-lora"), {}, "LoRA is not supported [--enable-lora]: got on, expected not given"),
    ((*STATIC, "--seed", "-1"), {}, "number [--seed]: got -1, expected an integer from 0 to 9223372036854775807"),
    (("tiny-llama", "--policy", "nope", *STATIC[-2:]), {}, "unknown policy [policy name]: got 'nope', expected one of"),
    (("tiny-llama", "--policy", ":", *STATIC[-2:]), {}, "policy [--policy]: got :, expected a policy's name, or"),
    ((*STATIC, "--set", "more=1"), {}, "unknown setting [policy static-depth]: got 'more'"),
    (
        (*STATIC[:3], "--set", "ratio=7", *STATIC[-2:]),
        {},
        "setting cannot be used [policy static-depth, setting ratio]",
    ),
    ((*STATIC, "--delta", "none.pt"), {}, "delta is missing [none.pt]: got no such file, expected an existing"),
    ((*STATIC, "--routed-layers", "5-9"), {}, "routed layers [layers of the model]: got 6, 7, 8, 9, expected 0 to 5"),
    ((*STATIC, "--json-model-override-args", '{"head_dim": 3}'), {}, "unsupported model config ["),
    ((".", *STATIC[1:]), {}, "model [.]: got a folder without config.json"),
    ((*STATIC, "--routed-layers", "4,2"), {}, "routed_layers [the options]: got (4, 2)"),
    (STATIC, {"SGLANG_PLUGINS": "one, two"}, "the plugin is left out [SGLANG_PLUGINS]: got one,two, expected vskipper"),
    (STATIC, {"SGLANG_EXTERNAL_MODEL_PACKAGE": "mine"}, "another model package [SGLANG_EXTERNAL_MODEL_PACKAGE]"),
    ((*STATIC, "--nnodes", "2"), {}, "not served [--nnodes]: got 2, expected 1; several nodes"),
    ((*STATIC, "--model-path", "other"), {}, "model [--model-path]: got other, expected MODEL, given once"),
    ((*STATIC, "--model", "other"), {}, "model [--model-path]: got other"),
    ((*STATIC, "--json-model-override-args", "{bad"), {}, "the model's overrides [--json-model-override-args]"),
    ((*STATIC, "--json-model-override-args", "[1]"), {}, "the model's overrides [--json-model-override-args]"),
    (("./cut", *STATIC[1:]), {}, "model [cut/config.json]: got Expecting"),
    (("./list", *STATIC[1:]), {}, "model [list/config.json]: got list, expected a JSON object"),
    ((*STATIC, "--grpc-mode"), {}, "not served [--grpc-mode]: got given, expected the HTTP server"),
    ((*STATIC, "--", "--config", "server.yaml"), {}, "not served [--config]"),
    ((*STATIC, "--page-size", "many"), {}, "SGLang's arguments [vskipper serve]: got argument --page-size"),
]


@pytest.mark.parametrize(("arguments", "environment", "told"), BAD, ids=[told.split("]")[0] for _, _, told in BAD])
def test_bad_input_is_refused_before_a_server_starts(
    serve: Serve, tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], told: str
) -> None:
    for name, config in (("cut", '{"model_type": '), ("list", "[1]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(config)
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "odd.json").write_text('{"ratio": 0.5}')
    (tmp_path / "twice.json").write_text('{"seed": 1, "policy": "random-skip", "seed": 2}')
    (tmp_path / "true.json").write_text('{"settings": {"seed": true}}')
    (tmp_path / "other.json").write_text('{"settings": {"ratio": 0.25}}')
    ended = serve(*arguments, environment=environment)
    assert (ended.code, ended.out) == (2, "")
    assert ended.errors.startswith(f"vskipper: {told}")
    assert ended.errors.count("\n") == 1
    assert not (tmp_path / "told.json").exists()


def test_a_policy_of_the_user_s_folder_is_found(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "mine_to_serve.py").write_text("from vskipper.policies.static_depth import StaticDepth as Mine")
    arguments = ("tiny-llama", "--policy", "mine_to_serve:Mine", "--set", "ratio=0.5", "--device", "cpu")
    assert serve(*arguments, exit=7).code == 7


def test_a_hub_s_model_is_the_server_s_to_look_up(serve: Serve) -> None:
    assert serve("owner/name", "--policy", "nope", "--device", "cpu", exit=7).code == 7


def test_a_machine_without_an_accelerator_is_named(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    told = "vskipper: no device [vskipper serve]: got no accelerator that this torch can use"
    for version, more in (("13.0", ""), (None, ", which is built without CUDA")):
        monkeypatch.setattr(torch.version, "cuda", version)
        ended = serve(*STATIC[:-2])
        assert ended.code == 2 and ended.errors.startswith(f"{told}{more}, expected --device cpu")


def test_the_file_the_options_and_the_environment_add_up(serve: Serve, tmp_path: Path) -> None:
    file = {"policy": "static-depth", "settings": {"ratio": 0.5}, "delta": None, "routed_layers": [2, 3]}
    (tmp_path / "c.json").write_text(json.dumps(file))
    options = (
        "--config",
        "c.json",
        "--routed-layers",
        "2-3",
        "--set",
        "projector=zero",
        "--mode",
        "dense",
        "--device",
        "cpu",
    )
    serve("tiny-llama", *options, environment={"VSKIPPER_CONFIG": '{"seed": 4, "mode": "dense"}'}, exit=1)
    told = json.loads((tmp_path / "told.json").read_text())
    assert json.loads(told["environment"]["VSKIPPER_CONFIG"]) == file | {
        "settings": {"ratio": 0.5, "projector": "zero"},
        "mode": "dense",
        "seed": 4,
    }


def test_the_plugin_can_be_found_without_an_installation(serve: Serve, tmp_path: Path) -> None:
    serve(*STATIC, exit=1)
    code = "from importlib.metadata import entry_points as e; print({p.value for p in e(group='sglang.srt.plugins')})"
    environment = json.loads((tmp_path / "told.json").read_text())["environment"]
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == "{'vskipper.sglang.plugin:load'}\n"


def test_without_an_engine_it_is_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vskipper.sglang.launch.command.find_spec", lambda name: None)
    ended = serve(*STATIC)
    assert ended.code == 2
    assert ended.errors.startswith(f"vskipper: no SGLang [{sys.executable}]: got no module named sglang")


@pytest.mark.server
@pytest.mark.xdist_group("serve")
@absent
def test_a_real_server_serves_and_ends(tmp_path: Path) -> None:
    port = free_port()
    arguments = ["--device", "cpu", "--dtype", "float32", "--max-total-tokens", "2048", "--max-running-requests", "4"]
    path = os.pathsep.join([*(entry for entry in sys.path if entry.endswith(("sgl", "sglang"))), str(ROOT)])
    inherited = os.environ.get("PYTHONPATH", "")
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "vskipper", "serve", *STATIC, *arguments, "--port", str(port)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, inherited])), "HF_HUB_OFFLINE": "1"},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        served = Served(process, tmp_path, port)
        try:
            assert served.ready().endswith(f":{port}, policy static-depth, mode routed\n")
            body = {"input_ids": [5, 6, 7, 8], "sampling_params": {"max_new_tokens": 4, "temperature": 0}}
            request = Request(f"http://127.0.0.1:{port}/generate", json.dumps(body).encode())
            request.add_header("Content-Type", "application/json")
            with urlopen(request, timeout=60) as answer:
                assert len(json.load(answer)["output_ids"]) == 4
            process.terminate()
            assert process.wait(60) in (0, 128 + signal.SIGKILL)
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
                process.wait(60)

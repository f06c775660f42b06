"""The CPU stand-ins: found by themselves, only on the CPU engine, and only where the real thing is not."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.engine import needs_sglang
from vskipper.errors import InputError
from vskipper.sglang.cpu import finder, kernels, prepare_process, stand_in_environment
from vskipper.sglang.cpu.allocator import launches_always


def python(code: str, *first: Path, engine: str = "1") -> str:
    """The output of a process that has the stand-ins' environment, `first` on its path before all else."""
    inherited = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, first))}
    environment = inherited | stand_in_environment(environment=inherited) | {"SGLANG_USE_CPU_ENGINE": engine}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def package(folder: Path, name: str, **modules: str) -> Path:
    (folder / name).mkdir()
    for module, text in modules.items():
        (folder / name / f"{module}.py").write_text(text)
    return folder


def test_any_name_of_the_stand_in_imports_and_says_what_it_is_when_called() -> None:
    told = python(
        "from sgl_kernel import silu_and_mul\n"
        "from sgl_kernel.kvcacheio import transfer_kv_all_layer\n"
        "for absent in (silu_and_mul, transfer_kv_all_layer):\n"
        "    try: absent(1, out=2)\n"
        "    except NotImplementedError as error: print(error)\n"
        "import sgl_kernel\n"
        "print(hasattr(sgl_kernel, '__version__'))\n"
        "try: import sgl_kernel.flash_attn\n"
        "except ModuleNotFoundError as error: print(error.name)\n"
    )
    lines = told.splitlines()
    assert lines[0].startswith("sgl_kernel.silu_and_mul: not in vSkipper's stand-in")
    assert lines[1].startswith("sgl_kernel.kvcacheio.transfer_kv_all_layer: not in")
    assert lines[2:] == ["False", "sgl_kernel.flash_attn"]


def test_a_real_package_wins(tmp_path: Path) -> None:
    package(tmp_path, "sgl_kernel", __init__="from sgl_kernel.ops import word\n", ops="word = 'real'\n")
    code = "import sgl_kernel as k, inspect; print(k.word, hasattr(k, 'other'), inspect.getsource(k))"
    assert python(code, tmp_path) == "real False from sgl_kernel.ops import word\n\n"


@pytest.mark.parametrize("failure", ["ImportError('no library')", "OSError('libcuda.so')", "RuntimeError('no driver')"])
def test_a_real_package_for_another_device_is_stood_in_for(tmp_path: Path, failure: str) -> None:
    package(
        tmp_path,
        "sgl_kernel",
        __init__=f"import sgl_kernel.ops\nhalf = 1\nraise {failure}\n",
        ops="",
        kvcacheio="real = 1",
    )
    code = (
        "import sgl_kernel, sys\n"
        "print(callable(sgl_kernel.half), 'sgl_kernel.ops' in sys.modules)\n"
        "from sgl_kernel.kvcacheio import real\n"
        "print(callable(real))\n"
    )
    assert python(code, tmp_path).split() == ["True", "False", "True"]


def test_a_real_package_that_is_wrong_in_another_way_is_not_hidden(tmp_path: Path) -> None:
    package(tmp_path, "sgl_kernel", __init__="raise ValueError('a bug')\n")
    code = "try: import sgl_kernel\nexcept ValueError as error: print(error)"
    assert python(code, tmp_path) == "a bug\n"


def torchvision(folder: Path, *, works: bool) -> Path:
    """As far as matters here: its library loads or does not, then shape functions are registered for operators."""
    define = "torch.library.define(f'torchvision::{name}', '(Tensor a) -> Tensor')"
    load = f"import torch\nfor name in ('nms', 'qnms'): {define}"
    meta = (
        "import torch\n"
        "for name in ('nms', 'qnms'): torch.library.register_fake(f'torchvision::{name}', lambda *given: given[0])\n"
    )
    init = f"{load if works else ''}\nimport torchvision._meta_registrations\n"
    return package(folder, "torchvision", __init__=init, _meta_registrations=meta)


@pytest.mark.parametrize(("works", "arguments"), [(False, "dets scores iou_threshold"), (True, "a")])
def test_operators_are_defined_where_torchvision_could_not(tmp_path: Path, works: bool, arguments: str) -> None:
    code = (
        "import torchvision, torch\n"
        "schema = torch.ops.torchvision.nms.default._schema\n"
        "print(*[argument.name for argument in schema.arguments])\n"
    )
    assert python(code, torchvision(tmp_path, works=works)) == f"{arguments}\n"


def test_without_the_cpu_engine_nothing_is_installed() -> None:
    code = "import sys; print(*[type(each).__name__ for each in sys.meta_path], 'vskipper' in sys.modules)"
    assert "StandIns" in python(code)
    assert python(code, engine="0").endswith("False\n")
    assert "StandIns" not in python(code, engine="0")


@pytest.mark.parametrize("engine", ["0", "1"])
def test_a_sitecustomize_of_the_user_s_runs(tmp_path: Path, engine: str) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')\nmark = 1\n")
    code = "import sitecustomize; print(sitecustomize.mark, sitecustomize.__file__)"
    assert python(code, tmp_path, engine=engine).splitlines() == ["mine", f"1 {tmp_path / 'sitecustomize.py'}"]


def test_what_the_user_set_stays() -> None:
    made = stand_in_environment(environment={"OMP_NUM_THREADS": "5", "PYTHONPATH": os.pathsep.join(["/one", "/two"])})
    folder, *others = made["PYTHONPATH"].split(os.pathsep)
    assert others == ["/one", "/two"]
    assert (Path(folder) / "sitecustomize.py").is_file()
    assert "OMP_NUM_THREADS" not in made
    assert int(stand_in_environment(environment={})["OMP_NUM_THREADS"]) >= 1


def test_the_path_is_extended_once() -> None:
    once = stand_in_environment(environment={})
    assert stand_in_environment(environment=once)["PYTHONPATH"] == once["PYTHONPATH"]


ALLOCATOR = """
class PagedTokenToKVPoolAllocator:
    def alloc_extend(self, lens):
        out = empty(lens)
        {extend}
    def alloc_decode(self, lens):
        pass
class Another:
    def alloc_extend(self):
        kernel[(1,)](1)
"""


@pytest.mark.parametrize(
    ("extend", "answer"),
    [
        ("alloc_extend_kernel[(lens,)](out)", True),
        ("if self.use_triton: alloc_extend_kernel[(lens,)](out)", False),
        ("alloc_extend_naive(out)", False),
    ],
)
def test_an_allocator_needs_the_interpreter_where_it_launches_without_asking(extend: str, answer: bool) -> None:
    assert launches_always(ALLOCATOR.format(extend=extend)) is answer


def test_pages_are_interpreted_only_where_there_are_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sglang" / "srt" / "mem_cache"
    folder.mkdir(parents=True)
    (tmp_path / "sglang" / "__init__.py").touch()
    (folder / "allocator.py").write_text(ALLOCATOR.format(extend="alloc_extend_kernel[(lens,)](out)"))
    monkeypatch.delitem(sys.modules, "sglang", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert stand_in_environment(page_size=16, environment={})["TRITON_INTERPRET"] == "1"
    assert "TRITON_INTERPRET" not in stand_in_environment(page_size=1, environment={})
    assert "TRITON_INTERPRET" not in stand_in_environment(page_size=16, environment={"TRITON_INTERPRET": "0"})


def test_a_process_that_chose_already_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sglang.srt", sys)
    monkeypatch.delenv("SGLANG_USE_CPU_ENGINE", raising=False)
    with pytest.raises(InputError, match="imported already"):
        prepare_process()


def test_the_finder_is_installed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = len(sys.meta_path)
    had = any(isinstance(each, finder.StandIns) for each in sys.meta_path)
    finder.install()
    finder.install()
    assert len(sys.meta_path) == before + (not had)
    assert any(isinstance(each, finder.StandIns) for each in sys.meta_path)


def test_attention_is_absent_where_the_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "find_spec", lambda name: None)
    assert not kernels.attention_present()


@needs_sglang
def test_the_engine_s_model_runner_imports_with_these_and_nothing_else() -> None:
    code = (
        "from sglang.srt.model_executor.model_runner import ModelRunner\n"
        "from sglang.srt.utils import is_cpu, cpu_has_amx_support\n"
        "print(ModelRunner.__name__, is_cpu(), cpu_has_amx_support())\n"
    )
    root = find_spec("sglang").submodule_search_locations[0]  # type: ignore[union-attr,index]
    assert python(code, Path(root).parent).splitlines()[-1] == "ModelRunner True False"


@needs_sglang
def test_a_prepared_process_imports_it_too() -> None:
    code = (
        "from vskipper.sglang.cpu import prepare_process; prepare_process(); prepare_process()\n"
        "from sglang.srt.model_executor.model_runner import ModelRunner\n"
        "import sgl_kernel\n"
        "from vskipper.sglang.cpu.kernels import is_stand_in\n"
        "print(ModelRunner.__name__, is_stand_in(sgl_kernel))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "ModelRunner True"

"""Finding the suite in a checkout and in a wheel, and the environment it is run in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT
from vskipper import suite
from vskipper.errors import InputError


def lay_out(folder: Path, names: tuple[str, ...] = suite.PACKAGES) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("")
    return folder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed vskipper without a suite."""
    folder = tmp_path / "site-packages" / "vskipper"
    folder.mkdir(parents=True)
    monkeypatch.setattr(suite, "__file__", str(folder / "suite.py"))
    return folder


def test_in_a_checkout_it_lies_beside_the_package() -> None:
    assert suite.suite_root() == ROOT


def test_in_a_wheel_it_lies_inside_and_wins_over_namesakes(package: Path) -> None:
    lay_out(package.parent)
    inside = lay_out(package / "_suite")
    assert suite.suite_root() == inside


def test_without_it_the_error_says_where(package: Path) -> None:
    lay_out(package / "_suite", suite.PACKAGES[:2])
    with pytest.raises(InputError, match="site-packages/vskipper"):
        suite.suite_root()


def test_on_the_path_the_suite_comes_first_and_the_users_folder_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["elsewhere"])
    suite.put_on_path()
    suite.put_on_path()
    assert sys.path == [str(ROOT), "elsewhere", str(tmp_path)]


def test_the_users_pytest_settings_stay_out_of_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--maxfail=1")
    monkeypatch.setenv("PYTHONPATH", f"mine{os.pathsep}{os.pathsep}{ROOT}")
    environment = suite.suite_environment(tmp_path / "work")
    assert {name: value for name, value in environment.items() if name.startswith("PYTEST_")} == {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"
    }
    assert environment["PYTHONPATH"].split(os.pathsep) == [str(ROOT), str(tmp_path), "mine"]
    assert environment[suite.HYPOTHESIS_FOLDER] == str(tmp_path / "work" / "hypothesis")

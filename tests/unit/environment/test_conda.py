"""Selecting an environment, and what `conda activate` would change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ma_boot.errors import ConfigError
from ma_boot.node.environment.conda import PythonEnvironment, find_environment, plan_activation
from ma_boot.node.environment.patch import applied


def make_env(prefix: Path, conda: bool = True) -> Path:
    """An environment, as far as a directory tells."""
    python = prefix / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    if conda:
        (prefix / "conda-meta").mkdir()
    return python


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An installation of conda in a home, with two environments."""
    root = tmp_path / "anaconda3"
    make_env(root)
    make_env(root / "envs" / "python-3.7.10")
    make_env(root / "envs" / "other")
    return root


IMAGE = {"ANACONDA_DIR": "{root}", "DEFAULT_CONDA_ENV_NAME": "python-3.7.10", "PATH": "{root}/envs/other/bin"}


@pytest.mark.parametrize(
    ("python", "conda_env", "environ", "name", "origin"),
    [
        (None, None, IMAGE, "python-3.7.10", "DEFAULT_CONDA_ENV_NAME=python-3.7.10"),
        ("{root}/envs/other/bin/python", None, IMAGE, "other", "--python"),
        (None, None, {"PATH": "{root}/envs/other/bin:/usr/bin"}, "other", "PATH"),
        (None, "other", IMAGE, "other", "--conda-env other"),
    ],
)
def test_the_four_ways_of_the_document_develop_modelarts_1416(
    root: Path,
    python: str | None,
    conda_env: str | None,
    environ: dict[str, str],
    name: str,
    origin: str,
) -> None:
    environ = {key: value.format(root=root) for key, value in environ.items()}
    chosen = python and python.format(root=root)
    selected = find_environment(chosen, conda_env, environ, "/nowhere")
    assert (selected.prefix, selected.name, selected.origin) == (f"{root}/envs/{name}", name, origin)


@pytest.mark.parametrize("name", ["anaconda", "anaconda3", "miniconda3", "miniforge3"])
def test_conda_is_found_in_the_home(tmp_path: Path, name: str) -> None:
    make_env(tmp_path / name / "envs" / "e")
    assert find_environment(None, "e", {}, str(tmp_path)).prefix == str(tmp_path / name / "envs" / "e")


def test_base_is_the_installation_itself(root: Path) -> None:
    assert find_environment(None, "base", {"ANACONDA_DIR": str(root)}, "/nowhere").prefix == str(root)
    assert find_environment(str(root / "bin" / "python"), None, {}, "/nowhere").name == "base"


def test_anaconda_dir_excludes_other_installations(root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError):
        find_environment(None, "other", {"ANACONDA_DIR": str(tmp_path / "empty")}, str(tmp_path))


def test_the_error_of_an_unknown_name_lists_the_environments(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        find_environment(None, "typo", {}, str(tmp_path))
    assert f"{root}/envs/typo" in str(raised.value)
    assert f"base, other, python-3.7.10 in {root}" in str(raised.value)


def test_the_error_without_an_environment_lists_the_searched_places(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        find_environment(None, None, {"PATH": str(tmp_path)}, str(tmp_path))
    for place in ("--python", "--conda-env", "DEFAULT_CONDA_ENV_NAME", f"PATH={tmp_path}"):
        assert place in str(raised.value)


@pytest.mark.parametrize(("python", "message"), [("python", "absolute"), ("/no/such", "does not exist")])
def test_an_unusable_python_is_an_error(python: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_environment(python, None, {}, "/nowhere")


class TestWhereCondaLooks:
    """`conda/base/context.py`: `envs_dirs` of variables, settings, the installation and the user."""

    @pytest.mark.parametrize("place", [".conda/envs", "configured", "by_variable", "root/envs"])
    def test_a_name(self, tmp_path: Path, place: str) -> None:
        (tmp_path / ".condarc").write_text("envs_dirs: [~/configured]\n")
        make_env(tmp_path / "root")
        (tmp_path / "root" / "bin" / "conda").touch()
        make_env(tmp_path / place / "e")
        environ = {"CONDA_ENVS_DIRS": f"{tmp_path}/by_variable", "CONDA_EXE": f"{tmp_path}/root/bin/conda"}
        selected = find_environment(None, "e", environ, str(tmp_path))
        assert (selected.prefix, selected.root) == (str(tmp_path / place / "e"), str(tmp_path / "root"))
        assert selected.name == ("e" if place.endswith("envs") else selected.prefix)
        with pytest.raises(ConfigError, match=f"e in {tmp_path}"):
            find_environment(None, "typo", environ, str(tmp_path))

    def test_anaconda_dir_may_end_in_a_slash_or_be_relative(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(root.parent)
        for written in (f"{root}/", root.name):
            environ = {"ANACONDA_DIR": written}
            assert find_environment(None, "base", environ, "/nowhere").prefix == str(root)
            assert find_environment(None, "other", environ, "/nowhere").name == "other"

    @pytest.mark.parametrize("text", ["- a", "{"])
    def test_broken_settings_are_named(self, tmp_path: Path, text: str) -> None:
        make_env(tmp_path / "anaconda3")
        (tmp_path / ".condarc").write_text(text)
        with pytest.raises(ConfigError, match=r"\.condarc"):
            find_environment(None, "e", {}, str(tmp_path))


class TestActivation:
    """The patch, against what conda's own activator sets."""

    def patched(self, prefix: Path, environ: dict[str, str]) -> dict[str, str]:
        selected = PythonEnvironment(f"{prefix}/bin/python", str(prefix), "e", "test")
        return applied(environ, plan_activation(selected, environ, str(prefix)).patch)

    def test_from_nothing(self, tmp_path: Path) -> None:
        after = self.patched(tmp_path, {"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/usr/local/lib"})
        assert after == {
            "PATH": f"{tmp_path}/bin:/usr/bin",
            "LD_LIBRARY_PATH": f"{tmp_path}/lib:/usr/local/lib",
            "CONDA_PREFIX": str(tmp_path),
            "CONDA_DEFAULT_ENV": "e",
            "CONDA_SHLVL": "1",
        }

    def test_again_changes_nothing(self, tmp_path: Path) -> None:
        once = self.patched(tmp_path, {"PATH": "/usr/bin"})
        assert self.patched(tmp_path, once) == once

    def test_leaks_are_closed(self, tmp_path: Path) -> None:
        after = self.patched(tmp_path, {"PATH": "", "PYTHONHOME": "/x", "VIRTUAL_ENV": "/opt/ma_boot"})
        assert "PYTHONHOME" not in after
        assert "VIRTUAL_ENV" not in after

    def test_the_environments_variables_in_condas_order(self, tmp_path: Path) -> None:
        packages = tmp_path / "etc" / "conda" / "env_vars.d"
        packages.mkdir(parents=True)
        (packages / "a.json").write_text('{"A": "package", "B": "package"}')
        (tmp_path / "conda-meta").mkdir()
        state = {"env_vars": {"B": "user", "C": "***unset***"}}
        (tmp_path / "conda-meta" / "state").write_text(json.dumps(state))
        after = self.patched(tmp_path, {"C": "outside"})
        assert (after["A"], after["B"], after["C"]) == ("package", "user", "outside")

    @pytest.mark.parametrize("text", ["{", "[]", '{"env_vars": []}'])
    def test_a_broken_state_is_named(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "conda-meta").mkdir()
        (tmp_path / "conda-meta" / "state").write_text(text)
        with pytest.raises(ConfigError, match="conda-meta/state"):
            self.patched(tmp_path, {})

    @pytest.mark.parametrize(
        ("origin", "path"), [("--python", "/venv/bin:/usr/bin"), ("PATH", "/usr/bin:/venv/bin")]
    )
    def test_a_python_outside_of_conda(self, origin: str, path: str) -> None:
        environ = {"PATH": "/usr/bin:/venv/bin", "VIRTUAL_ENV": "/venv"}
        selected = PythonEnvironment("/venv/bin/python", None, None, origin)
        assert applied(environ, plan_activation(selected, environ, "/nowhere").patch) == {
            "PATH": path,
            "VIRTUAL_ENV": "/venv",
        }


class TestAsCondaDoes:
    """What `conda activate` of conda 26 does; test_conda_witness.py compares with conda itself, where it is."""

    def patched(self, root: Path, environ: dict[str, str], name: str = "other") -> dict[str, str]:
        (root / "bin" / "conda").touch()
        home = str(root.parent)
        selected = find_environment(None, name, {**environ, "ANACONDA_DIR": str(root)}, home)
        return applied(environ, plan_activation(selected, environ, home).patch)

    def test_the_variables_of_its_installation(self, root: Path) -> None:
        after = self.patched(root, {"PATH": "/usr/bin"})
        assert {
            name: value for name, value in after.items() if name.startswith(("_C", "CONDA_E", "CONDA_PY"))
        } == {
            "CONDA_EXE": f"{root}/bin/conda",
            "_CONDA_EXE": f"{root}/bin/conda",
            "_CONDA_ROOT": str(root),
            "CONDA_PYTHON_EXE": f"{root}/bin/python",
        }
        assert after["PATH"] == f"{root}/envs/other/bin:{root}/condabin:/usr/bin"

    @pytest.mark.parametrize(
        ("before", "path", "level", "saved"),
        [
            ({"CONDA_SHLVL": "1"}, "/first:{new}/bin:/usr/bin", "2", {"CONDA_PREFIX_1": "{old}"}),
            ({"CONDA_SHLVL": "0"}, "{new}/bin:{root}/condabin:/first:{old}/bin:/usr/bin", "1", {}),
            ({}, "{new}/bin:{root}/condabin:/first:{old}/bin:/usr/bin", "1", {}),
        ],
        ids=["active", "not active any more", "no level"],
    )
    def test_an_environment_gives_its_place_only_if_it_is_active(
        self, root: Path, before: dict[str, str], path: str, level: str, saved: dict[str, str]
    ) -> None:
        places = {"root": root, "old": root / "envs" / "python-3.7.10", "new": root / "envs" / "other"}
        old_path = "/first:{old}/bin:/usr/bin".format(**places)
        after = self.patched(root, {"PATH": old_path, "CONDA_PREFIX": str(places["old"]), **before})
        assert after["PATH"] == path.format(**places)
        assert (after["CONDA_SHLVL"], after["CONDA_PREFIX"]) == (level, str(places["new"]))
        saved_prefixes = {name: value for name, value in after.items() if name.startswith("CONDA_PREFIX_")}
        assert saved_prefixes == {name: value.format(**places) for name, value in saved.items()}

    def test_names_are_in_upper_case(self, root: Path) -> None:
        state = root / "envs" / "other" / "conda-meta" / "state"
        state.write_text(
            json.dumps({"env_vars": {"lower": "x", "HAD": "after", "PATH": "/not/this", "N": None}})
        )
        after = self.patched(root, {"PATH": "/usr/bin", "HAD": "before"})
        assert (after["LOWER"], after["HAD"], after["N"]) == ("x", "after", "")
        assert "lower" not in after
        assert "/not/this" not in after["PATH"]

    def test_a_prefix_is_called_by_its_path(self, root: Path, tmp_path: Path) -> None:
        python = make_env(tmp_path / "elsewhere")
        selected = find_environment(str(python), None, {}, str(tmp_path))
        after = applied({}, plan_activation(selected, {}, str(tmp_path)).patch)
        assert after["CONDA_DEFAULT_ENV"] == str(tmp_path / "elsewhere")


@pytest.mark.parametrize("prefix", [True, None])
def test_activation_scripts_in_order(tmp_path: Path, prefix: bool | None) -> None:
    scripts = tmp_path / "etc" / "conda" / "activate.d"
    scripts.mkdir(parents=True)
    for name in ("b.sh", "a.sh", "c.csh"):
        (scripts / name).touch()
    selected = PythonEnvironment("/p", str(tmp_path) if prefix else None, None, "test")
    names = [Path(script).name for script in plan_activation(selected, {}, "/nowhere").after]
    assert names == (["a.sh", "b.sh"] if prefix else [])

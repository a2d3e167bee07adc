"""The variables that tell compilers where their caches are, and which of their files are kept."""

from __future__ import annotations

import pytest

from ma_boot.node.caches.compilers import compiler_variables, is_temporary_of_compiler


def test_every_compiler_has_a_directory_of_its_own() -> None:
    found = compiler_variables("/cc/key", {}, 1)
    assert found.values == {
        "TORCHINDUCTOR_CACHE_DIR": "/cc/key/torchinductor",
        "TRITON_CACHE_DIR": "/cc/key/triton",
        "MS_COMPILER_CACHE_PATH": "/cc/key/mindspore",
        "MS_COMPILER_CACHE_ENABLE": "1",
        "ASCEND_CACHE_PATH": "/cc/key/cann",
    }
    assert set(found.directories) == set(found.values.values()) - {"1"}
    assert found.notes == ()


def test_a_cache_by_rank_is_kept_only_for_a_single_node() -> None:
    assert "MS_COMPILER_CACHE_PATH" not in compiler_variables("/cc/key", {}, 2).values
    assert "MS_COMPILER_CACHE_ENABLE" not in compiler_variables("/cc/key", {}, 2).values


def test_variables_that_the_user_has_set_stay_and_are_named() -> None:
    found = compiler_variables("/cc", {"TRITON_CACHE_DIR": "/mine", "MS_COMPILER_CACHE_ENABLE": "0"}, 1)
    assert found.values.keys() == {"TORCHINDUCTOR_CACHE_DIR", "ASCEND_CACHE_PATH"}
    assert found.notes == ("TRITON_CACHE_DIR is set to /mine: what is compiled there is not kept",)


def test_a_path_that_cann_refuses_is_not_given_to_it() -> None:
    found = compiler_variables("/my cache", {}, 1)
    assert "ASCEND_CACHE_PATH" not in found.values
    assert "CANN takes only letters" in found.notes[0]


@pytest.mark.parametrize(
    ("path", "is_temporary"),
    [
        ("torchinductor/locks/abc", True),
        ("triton/K/abc.lock", True),
        ("torchinductor/fxgraph/ab/.12.34.tmp", True),
        ("triton/K/tmp.pid_12_ab/kernel.cubin", True),
        ("triton/K/kernel.cubin", False),
        ("torchinductor/5o/c5of.main.so", False),
        ("mindspore/rank_0/graph_cache/compile_cache_0.mindir", False),
    ],
)
def test_locks_and_unfinished_files_are_not_kept(path: str, is_temporary: bool) -> None:
    assert is_temporary_of_compiler(path) == is_temporary

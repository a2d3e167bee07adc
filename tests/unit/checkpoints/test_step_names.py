"""The step is found in names that no framework's layout describes, or left open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.checkpoints.layouts.step_names import Seen, names_another_step, numbers_in, step_names_of

GAP = 1.0


def seen(*files: tuple[str, float]) -> dict[str, Seen]:
    """Files and the seconds when they were written."""
    return {path: Seen(time, time) for path, time in files}


def patterns(files: dict[str, Seen], ranks: Collection[int] = ()) -> Sequence[str]:
    return step_names_of(files, ranks, GAP).patterns


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("step_{}/model.pt", "step_{step}"),
        ("step{}/anything", "step{step}"),
        ("iter-{}/rank0/w", "iter-{step}"),
        ("ckpt-{}/state", "ckpt-{step}"),
        ("{}/w.bin", "{step}"),
        ("{}.pt", "{step}.pt"),
        ("last_{}/model.pt", "last_{step}"),
        ("rank_0/step_{}/w", "rank_*/step_{step}"),
        ("run_7/step_{}.pt", "run_*/step_{step}.pt"),
        ("epoch_3_step_{}.safetensors", "epoch_{epoch}_step_{step}.safetensors"),
        ("epoch=3-step={}.pt", "epoch={epoch}-step={step}.pt"),
        ("model_{}.pth.tar", "model_{step}.pth.tar"),
        ("a{{b}}_{}.pt", "a{{{{b}}}}_{{step}}.pt"),
        ("my step_{}/model.pt", "my*step_{step}"),
        ("ckpt_{}/model-00001-of-00003.bin", "ckpt_{step}"),
    ],
)
@pytest.mark.parametrize("times", [(1.0, 1.0), (1.0, 9.0)], ids=["together", "apart"])
def test_a_known_word_before_the_number_shows_the_step(
    name: str, pattern: str, times: tuple[float, float]
) -> None:
    expected = [pattern.format(step="{step}", epoch="{epoch}") if "{{{{" in pattern else pattern]
    one, two = ((name.format(step), time) for step, time in zip((10, 20), times))
    assert list(patterns(seen(one))) == expected
    assert list(patterns(seen(one, two))) == expected


def test_an_unknown_word_needs_files_that_came_one_after_the_other() -> None:
    assert patterns(seen(("foo_1/w.pt", 1), ("foo_2/w.pt", 1.5))) == ()
    assert patterns(seen(("foo_1/w.pt", 1), ("foo_2/w.pt", 2))) == ("foo_{step}",)
    assert patterns(seen(("foo_1/w.pt", 1), ("foo_2/w.pt", 5), ("foo_1/more.pt", 6))) != ("foo_{step}/w.pt",)


def test_the_number_that_changes_with_time_is_the_step() -> None:
    files = seen(("2024/model_5.pt", 1), ("2024/model_6.pt", 5))
    assert patterns(files) == ("*/model_{step}.pt",)
    files = seen(("5/model_0.pt", 1), ("5/model_1.pt", 1), ("6/model_0.pt", 5), ("6/model_1.pt", 5))
    assert patterns(files) == ("{step}",)


def test_numbers_of_ranks_are_not_taken_for_steps() -> None:
    files = seen(("model_0.pt", 1), ("model_1.pt", 5))
    assert patterns(files, ranks=(0, 1)) == ()
    assert step_names_of(files, (0, 1), GAP).unclear == ("model_0.pt",)
    assert patterns(seen(("model_0.pt", 1), ("model_1.pt", 5), ("model_2.pt", 9)), ranks=(0, 1)) == (
        "model_{step}.pt",
    )
    assert patterns(seen(("step_0/model_0.pt", 1), ("step_0/model_1.pt", 1)), ranks=(0, 1)) == (
        "step_{step}",
    )


def test_only_weights_and_directories_with_a_known_word_are_steps() -> None:
    assert patterns(seen(("img_1.png", 1), ("img_2.png", 5), ("7/notes.txt", 9))) == ()
    assert patterns(seen(("step_1.json", 1), ("tokens-2.txt", 5))) == ()
    assert patterns(seen(("events.out.tfevents.17.host", 1), ("step_3.log", 1), ("step_3.pt.tmp", 1))) == ()
    assert patterns(seen(("model-00001-of-00002.bin", 1), ("layer_3.pt", 5))) == ()


def test_files_with_the_same_numbers_belong_to_the_same_steps() -> None:
    files = seen(("model-1.pth", 1), ("optim-1.pth", 1), ("model-2.pth", 5))
    assert patterns(files) == ("model-{step}.pth", "optim-{step}.pth")
    rare = seen(*((f"step_{step}/w", step * 5.0) for step in range(4)), ("best_1.pt", 6))
    assert patterns(rare) == ("step_{step}",)
    assert step_names_of(rare, (), GAP).unclear == ("best_1.pt",)


def test_weights_without_a_step_in_their_name_are_reported() -> None:
    assert step_names_of(seen(("best.pt", 1), ("notes.txt", 1)), (), GAP).unclear == ("best.pt",)


WORDS = st.sampled_from(["", "step_", "rank", "model-", "foo_", "epoch=", "v"])
PARTS = st.builds(
    lambda word, number, end: f"{word}{number}{end}",
    WORDS,
    st.integers(0, 40),
    st.sampled_from(["", "x", "_y"]),
)
PATHS = st.builds(
    lambda parts, suffix: "/".join(parts) + suffix,
    st.lists(PARTS, min_size=1, max_size=3),
    st.sampled_from([".pt", ".bin", "", ".json"]),
)  # fmt: skip


@given(st.dictionaries(PATHS, st.floats(0, 100), max_size=12), st.sets(st.integers(0, 3)))
def test_every_pattern_can_be_read_and_matches_a_file(
    files: dict[str, float], ranks: Collection[int]
) -> None:
    from ma_boot.node.checkpoints.layouts.recognition import pattern_layout

    for pattern in patterns(seen(*files.items()), ranks):
        layout = pattern_layout([pattern])
        assert any(layout.step_of(path) is not None for path in files), pattern


@given(st.sets(PATHS, max_size=12), st.integers(0, 40))
def test_path_with_the_number_of_the_step_names_no_other_step(paths: Iterable[str], step: int) -> None:
    alone = [path for path in paths if {number.value for number in numbers_in(path)} == {step}]
    assert not names_another_step(paths, step) & set(alone)


def test_a_rank_that_is_ahead_names_its_next_step() -> None:
    ahead = ["step_1/a", "step_1/b", "step_2/a"]
    assert names_another_step(ahead, 1) == {"step_2/a"}
    assert names_another_step(["layer_3.pt", "layer_4.pt", "m_3.pt", "m_4.pt", "m_5.pt"], 3) == set()
    assert names_another_step(["0/w.pt", "1/w.pt"], 0, ranks=(0, 1)) == set(), "perhaps of two ranks"

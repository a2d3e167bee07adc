"""Output of ranks that several subscribers need: it is read and parsed once."""

from __future__ import annotations

import math
import threading

import pytest

from ma_boot.node.observe.metrics.output_reader import OutputNews, OutputReader
from ma_boot.node.observe.metrics.progress import Reading

STEP = b"epoch: 1 step: 7, loss is 0.5\n"


class Output:
    """Output of a rank, with the number of bytes that were read of it; `may_read` is set unless it hangs."""

    label, rank, pid, has_ended = "rank 0", 0, 1, False

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.read = 0
        self.is_read, self.may_read = threading.Event(), threading.Event()
        self.may_read.set()

    def since(self, position: int) -> tuple[int, bytes, float]:
        if self.label == "broken":
            raise ZeroDivisionError
        self.is_read.set()
        assert self.may_read.wait(30)
        self.read += len(self.text) - position
        return len(self.text), self.text[position:], 5.0


def no_warning(text: str) -> None:
    raise AssertionError(text)


def test_output_is_read_once_and_all_subscribers_get_its_values() -> None:
    reader, output = OutputReader((), no_warning), Output(STEP)
    first, second = reader.subscribe(), reader.subscribe()
    expected = [OutputNews(output, Reading(7, None, 0.5))]
    assert first([output]) == second([output]) == expected
    assert output.read == len(STEP)
    assert first([output]) == second([output]) == []


def test_subscriber_gets_what_was_read_before_another_thread_hangs() -> None:
    reader, output = OutputReader((), no_warning), Output(STEP)
    slow, quick = reader.subscribe(), reader.subscribe()
    slow([output])
    output.is_read.clear()
    output.may_read.clear()
    thread = threading.Thread(target=slow, args=([output],))
    thread.start()
    assert output.is_read.wait(30)
    assert [news.reading.step for news in quick([output])] == [7]
    output.may_read.set()
    thread.join(30)


@pytest.mark.parametrize(("found", "new_words"), [(True, [5.0]), (False, [])])
def test_time_of_output_in_new_words_is_news(found: bool, new_words: list[float]) -> None:
    reader, output = OutputReader((), no_warning), Output(b"evaluates\n")
    reader.has_new_words = lambda source, received, text: found
    read = reader.subscribe()
    assert [news.new_words for news in read([output])] == new_words
    output.text += STEP
    assert [news.new_words for news in read([output])] == [-math.inf], "a step says more"


def test_failed_reading_leaves_the_output_readable() -> None:
    reader, output = OutputReader((), no_warning), Output(STEP)
    read = reader.subscribe()
    output.label = "broken"
    with pytest.raises(ZeroDivisionError):
        read([output])
    output.label = "rank 0"
    assert len(read([output])) == 1

"""What ranks, cards and the machine do while a training runs, without a line of code in it."""

from ma_boot.metrics.card_tools import CardTools
from ma_boot.metrics.cards import npu_rows, works
from ma_boot.metrics.patterns import given
from ma_boot.metrics.sampler import Sampler, Sampling, Watched

__all__ = ["CardTools", "Sampler", "Sampling", "Watched", "given", "npu_rows", "works"]

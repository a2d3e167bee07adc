"""What ranks, cards and the machine do while a training runs, without a line of code in it."""

from ma_boot.metrics.card_tools import CardTools as CardTools
from ma_boot.metrics.cards import npu_rows as npu_rows, works as works
from ma_boot.metrics.patterns import given as given
from ma_boot.metrics.sampler import Sampler as Sampler, Sampling as Sampling, Watched as Watched

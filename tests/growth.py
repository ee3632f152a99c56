"""How much longer ten times the input takes."""

import gc
import timeit
from time import process_time


def growth(function, make, size):
    """Returns the ratio of processor times for ten times the input, at the least.

    `make(n)` makes an input of size n, which is not part of the time. Other processes
    and pauses for garbage only add time, so that the least of several figures counts.
    """

    def seconds(count):
        value = make(count)
        timer = timeit.Timer(lambda: function(value), timer=process_time)
        number = 1 + int(0.005 / (timer.timeit(1) + 1e-9))
        return min(timer.repeat(3, number)) / number

    gc.collect()
    ratio = float("inf")
    for _ in range(3):
        ratio = min(ratio, seconds(10 * size) / seconds(size))
        if ratio < 12:
            break
    return ratio

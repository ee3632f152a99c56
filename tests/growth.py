"""How much longer ten times the input takes."""

import time


def growth(function, make, size):
    """Returns the ratio of processor times for ten times the input, at the least.

    `make(n)` makes an input of size n, which is not part of the time. Noise only adds
    time, so that the minimum of several runs stands for each size.
    """

    def seconds(count):
        value = make(count)
        times = []
        for _ in range(4):
            start = time.process_time()
            function(value)
            times.append(time.process_time() - start)
        return min(times)

    return seconds(10 * size) / seconds(size)

"""How much longer ten times the input takes."""

import gc
from time import process_time

# Ten times the input takes ten times as long where the cost is linear, a hundred times
# where it is quadratic. Caches and busy neighbours brought linear ones up to 16.
LINEAR = 25


def growth(function, make, size):
    """Returns the ratio of processor times for ten times the input, at the least.

    `make(n)` makes an input of size n, which is not part of the time. Ten small inputs
    in turn stand for one, so that caches are as cold as for the large one. Pauses, also
    for garbage, and other processes only add time: the least of several figures counts.
    """

    def seconds(values):
        start = process_time()
        for value in values:
            function(value)
        return process_time() - start

    inputs = [make(size) for _ in range(10)], [make(10 * size)]
    least, ratio = [float("inf")] * 2, float("inf")
    gc.disable()
    try:
        for _ in range(15):
            least = [*map(min, least, map(seconds, inputs))]
            ratio = 10 * least[1] / least[0]
            if ratio < LINEAR / 2:
                break
    finally:
        gc.enable()
    return ratio

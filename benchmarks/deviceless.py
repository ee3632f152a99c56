"""Compiles for an H100 and for TPU v5e pods, without either, and counts the kernels.

    python3.13 -m venv .deviceless
    .deviceless/bin/python -m pip install -e '.[deviceless]'
    .deviceless/bin/python -m benchmarks.deviceless --json deviceless.jsonl
    .deviceless/bin/python -m benchmarks.deviceless --orders

It needs CPython 3.12 or newer, and takes 20 minutes on two cores. Each row is a program
of one system: a training step on a batch, or a call that tags it, its sentences (of up
to 26 tokens, from the embedded corpus; weights are random) split between the chips.

Small models are bound by the launches of kernels, so these are counted: a loop counts
its body times its trips. "estimate, ms" is the larger of 2.5 µs a kernel (on a GPU) and
the bytes that the compiler counts over the memory's bandwidth. It is no measurement.

`--orders` sets the papers' ratios of speed beside the ratios of kernels, on an H100.
"""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
import json
import math
import multiprocessing
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

for _name, _value in {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",  # no machine of Google's to ask
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}.items():
    os.environ.setdefault(_name, _value)

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from benchmarks import measure, papers, worker
from benchmarks.measure import SYSTEMS
from benchmarks.tagging import CONLL_TYPES
from jaxner import tagging
from jaxner.data import batching
from jaxner.training import corpus, objectives, optimizers, step

# What XLA asks of a GPU before it compiles for one; the figures of NVIDIA's H100 SXM.
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 core_count: 132
  shared_memory_per_block_optin: 232448 fpus_per_core: 128 clock_rate_ghz: 1.98
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800
  device_memory_size: 85043838976 cuda_compute_capability { major: 9 }
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 8 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
PODS = {1: "1x1", 8: "2x4", 64: "8x8", 256: "16x16"}
"""Topology of a v5e pod, by its number of chips."""
TARGETS = ("h100", *(f"v5e-{chips}" for chips in PODS))
BATCHES = {"train": (10, 32, 128), "tag": (1, 32, 128)}
LONGEST = 26  # tokens of a sentence
_BANDWIDTH = {"h100": 3.35e12, "v5e": 0.82e12}  # bytes a second
_LAUNCH = 2.5e-6  # seconds
# Operations of a program that start no kernel; an asynchronous one counts once.
_FREE = {"parameter", "tuple", "get-tuple-element", "constant", "bitcast"}
_FREE |= {"after-all", "partition-id", "replica-id", "optimization-barrier"}
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_COLLECTIVES += ("collective-permute",)
_OPERATION = re.compile(r"\s+(?:ROOT )?%?[\w.\-]+ = (.*?) ([a-z][\w\-]*)\(")
_BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s64": 8, "f64": 8}


class Counts(NamedTuple):
    """What a program runs on each device: loops are (trips, kernels of a trip)."""

    kernels: int
    loops: list[tuple[int, int]]
    collectives: int
    collective_bytes: int


def mesh(target: str) -> Mesh:
    """Returns a mesh of devices that are only described."""
    name, _, chips = target.partition("-")
    options: dict[str, Any] = {"topology_name": f"v5e:{PODS[int(chips or 1)]}"}
    options["platform"] = "tpu"
    if name == "h100":
        options = {"topology_name": "gpu", "platform": "cuda", "topology": "1x1x1"}
        options["target_config"] = H100
    devices = topologies.get_topology_desc(**options).devices
    return Mesh(np.array(devices), ("data",), axis_types=(AxisType.Auto,))


def compile_for(function: Any, target: str, *args: Any, split: int) -> Any:
    """Returns a program for a target; argument `split` is split between its chips."""
    chips = mesh(target)

    def shape(number: int, leaf: Any) -> Any:
        parts = PartitionSpec("data" if number == split else None)
        sharding = NamedSharding(chips, parts if np.ndim(leaf) else PartitionSpec())
        kind = leaf.dtype if hasattr(leaf, "dtype") else jnp.result_type(leaf)
        return jax.ShapeDtypeStruct(jnp.shape(leaf), kind, sharding=sharding)

    shaped = [
        jax.tree.map(functools.partial(shape, i), arg) for i, arg in enumerate(args)
    ]
    platform = "cuda" if target == "h100" else "tpu"
    traced = jax.jit(function).trace(*shaped)
    return traced.lower(lowering_platforms=(platform,)).compile()


def count(text: str) -> Counts:
    """Returns the counts of a compiled program's text."""
    bodies: dict[str, list[str]] = {}
    name = entry = ""
    for line in text.splitlines():
        if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$", line):
            name = head[2]
            bodies[name] = []
            entry = name if head[1] else entry
        elif name:
            bodies[name].append(line)
    loops: list[tuple[int, int]] = []

    @functools.cache
    def of(name: str) -> np.ndarray:
        total = np.zeros(3, np.int64)
        for line in bodies[name]:
            operation = re.match(
                r"\s+(?:ROOT )?%?[\w.\-]+ = (.*?) ([a-z][\w\-]*)\(", line
            )
            if not operation or operation[2] in _FREE or operation[2].endswith("-done"):
                continue
            called = re.findall(r"(?:body|to_apply|calls)=%?([\w.\-]+)", line)
            if operation[2] == "while":
                trips = re.search(r'"known_trip_count":\{"n":"(\d+)"', line)
                number, body = int(trips[1]) if trips else 1, of(called[0])
                loops.append((number, int(body[0])))
                total += number * body
            elif operation[2] == "call":
                total += of(called[0])
            elif operation[2] == "conditional":
                branches = re.search(r"branch_computations=\{(.*?)\}", line)
                named = branches[1] if branches else " ".join(called)
                total += np.max([of(x) for x in re.findall(r"%?([\w.\-]+)", named)], 0)
            else:
                total[0] += 1
                if operation[2].removesuffix("-start") in _COLLECTIVES:
                    total[1:] += 1, _size(operation[1])
        return total

    kernels, collectives, size = of(entry).tolist()
    return Counts(kernels, loops, collectives, size)


def _size(shapes: str) -> int:
    """Returns the bytes of the arrays in the text of a type."""
    arrays = re.findall(r"([a-z]+\d*)\[([\d,]*)\]", shapes)
    sizes = (math.prod(map(int, filter(None, n.split(",")))) for _, n in arrays)
    return sum(_BYTES.get(k, 4) * n for (k, _), n in zip(arrays, sizes, strict=True))


# --- Programs -------------------------------------------------------------------------


def programs(text: str, batch: int, types: list[str] = CONLL_TYPES, **changes: Any):
    """Returns (function, arguments, index of the batch) of training and of tagging."""
    config = worker.config_of(text, changes)
    examples = [e for e in measure.load("sample", "train") if len(e[0]) <= LONGEST]
    tagger = worker.build(config, [tokens for tokens, _ in examples], types)
    longest = max(examples, key=lambda example: len(example[0]))
    examples = [longest, *examples * -(-batch // len(examples))][:batch]
    sentences = [tagger.vocabulary.encode(tokens) for tokens, _ in examples]
    labels = [np.zeros(len(tokens), np.int32) for tokens, _ in examples]
    if tagger.vocabulary.reads_documents:
        numbers = [i // 8 for i in range(batch)]
        sentences, labels = batching.joined(numbers, sentences, labels, 0)

    def tag(tagger, batch):
        one = functools.partial(tagging.choose, tagger)
        return jax.vmap(one, (tagging.batch_axes(batch),))(batch)

    rows, options = len(sentences), config.to_dict()
    text_on_device = corpus.Corpus(
        sentences, labels, tagger.model, batch_size=rows, num_blocks=1, num_shapes=1
    )
    ((size, block),) = text_on_device.blocks([np.arange(rows)])
    block = jax.tree.map(lambda leaf: leaf[0], block)
    shape = size.shape._replace(
        words=-(-size.shape.words // 256) * 256
    )  # for 256 chips
    more = shape.words - size.shape.words
    block = block._replace(words=np.pad(block.words, (0, more)))
    padded = batching.pad(sentences, shape, rows)
    optimizer = optimizers.build(options["optimizer"], 100, 10)
    objective = objectives.Objective.of(options["objective"])
    sizes = objectives.Sizes(rows, text_on_device.batches.mean_tokens)
    parts = tuple(options["optimizer"].get("parts") or ())
    recipe = step.Recipe(tagger.model, optimizer, objective, sizes, parts)
    state = step.init(tagger.weights["params"], optimizer, parts)

    def train(state, frozen, arrays, block, key):
        batch, labels = corpus.take(arrays, block, size)
        key = jax.random.fold_in(key, state.step)
        args = frozen, batch, labels, block.places, key
        added = step.loss_and_gradient(recipe, state.params, *args)
        return step.update(recipe, state, *added)

    rest = tagger.weights["frozen"], text_on_device.arrays, block, jax.random.key(0)
    return {"train": (train, (state, *rest), 3), "tag": (tag, (tagger, padded), 1)}


def row(system: str, text: str, mode: str, batch: int, target: str, **options: Any):
    """Returns the figures of one program."""
    function, args, split = programs(text, batch, **options)[mode]
    start = time.perf_counter()
    program = compile_for(function, target, *args, split=split)
    seconds = time.perf_counter() - start
    counts, memory = count(program.as_text()), program.memory_analysis()
    moved = (program.cost_analysis() or {}).get("bytes accessed", 0.0)
    by_memory = moved / _BANDWIDTH[target.partition("-")[0]]
    by_launches = counts.kernels * _LAUNCH if target == "h100" else 0.0
    return {
        "system": system,
        "mode": mode,
        "batch": batch,
        "target": target,
        "kernels": counts.kernels,
        "loops": " ".join(f"{n}×{body}" for n, body in counts.loops),
        "collectives": counts.collectives,
        "collective MB": counts.collective_bytes / 1e6,
        "MB": (memory.argument_size_in_bytes + memory.temp_size_in_bytes) / 1e6,
        "estimate, ms": 1e3 * max(by_launches, by_memory),
        "compiled, s": seconds,
    }


def jobs(options: Any) -> Iterator[tuple[str, str, str, int, str]]:
    """Yields the programs to compile; each chip has a sentence, at least."""
    for system, target in itertools.product(options.systems, options.targets):
        chips = int(target.partition("-")[2] or 1)
        for mode in options.modes:
            batches = options.batches or BATCHES[mode]
            for batch in sorted({-(-size // chips) * chips for size in batches}):
                yield system, SYSTEMS[system], mode, batch, target


def orders() -> Iterator[tuple[str, str, float, dict[str, Any]]]:
    """Yields a paper's table, a system, the published ratio, and arguments of `row`."""
    for key in ("idcnn-2", "idcnn-7", "uanet-6"):
        _, types, systems = papers.TABLES[key]
        for name, (text, published) in systems.items():
            changes = (
                {"model.mc_dropout.num_samples": 1} if name.endswith("= 1") else {}
            )
            if published is not None:
                yield key, name, published, {"text": text, "types": types, **changes}
    for mode, published in papers.GRN_6.items():
        mode = {"training": "train", "tagging": "tag"}[mode]
        for name, ratio in ((papers.GRN_RIVAL, 1.0), ("GRN", published)):
            text = {"text": SYSTEMS[name], "mode": mode}
            yield f"grn-6, {mode}", name, ratio, text


def _ordered(args: tuple[str, str, float, dict[str, Any]]) -> dict[str, Any]:
    table, name, published, options = args
    options = {"mode": "tag", **options}
    counted = row(name, batch=128, target="h100", **options)
    facts = {"table": table, "system": name, "published": published}
    return {**facts, "kernels": counted["kernels"]}


def main(argv: Sequence[str] | None = None) -> None:
    """Compiles in two processes; prints each row as JSON, then a table."""
    made = measure.parser(__doc__)
    made.add_argument("--systems", nargs="+", choices=SYSTEMS, default=[*SYSTEMS])
    made.add_argument("--targets", nargs="+", choices=TARGETS, default=TARGETS)
    made.add_argument("--modes", nargs="+", choices=BATCHES, default=[*BATCHES])
    made.add_argument("--batches", nargs="+", type=int)
    made.add_argument("--orders", action="store_true")
    made.add_argument("--jobs", type=int, default=2, help="processes")
    options = measure.parse(made, argv)
    path = options.json and Path(options.json)
    fork = multiprocessing.get_context("spawn")
    rows = []
    with concurrent.futures.ProcessPoolExecutor(options.jobs, fork) as pool:
        if options.orders:
            results = pool.map(_ordered, orders())
        else:
            results = pool.map(row, *zip(*jobs(options), strict=True))
        for result in results:
            if options.orders:
                base = next(x for x in (*rows, result) if x["table"] == result["table"])
                result["× by kernels"] = base["kernels"] / result["kernels"]
            rows.append(result)
            line = json.dumps(result, ensure_ascii=False)
            print(line, flush=True)
            if path:
                with path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
    measure.Report().table("Compiled without a device", rows)


if __name__ == "__main__":
    main()

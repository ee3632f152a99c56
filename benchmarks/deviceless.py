"""Compiles for an H100 and for TPU v5e pods, without either, and counts the kernels.

    python3.13 -m venv .deviceless
    .deviceless/bin/python -m pip install -e '.[deviceless]'
    .deviceless/bin/python -m benchmarks.deviceless --json deviceless.jsonl
    .deviceless/bin/python -m benchmarks.deviceless --orders

It needs CPython 3.12 or newer. Each row, a line of JSON, is a program of one system: a
training step on a batch, or a call that tags it, with weights drawn at random. The
sentences, of up to 26 tokens, come from the embedded corpus, and are split between the
chips, at least one for each.

Small models are bound by the launches of kernels, so these are counted: a loop counts
its body times its trips. "MB" is what lies on each device. "estimate, ms", which is no
measurement, is the larger of 2.5 µs a kernel (on a GPU) and the bytes that the compiler
counts, a loop's once, over the memory's bandwidth.

`--targets here` also runs each program, on this machine's device, be it a CPU: "ms" is
the time of a call, "launched" the kernels that the profiler saw in it, on a GPU.

`--orders` sets the papers' ratios of speed, from `reproduce/figures.toml`, beside the
ratios of kernels on an H100 or, here, of time, in batches of 128 sentences (training:
10); a document has eight. The number of labels is that of the paper's corpus.
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
import statistics
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from benchmarks import measure, worker
from benchmarks.measure import CONLL_TYPES, SYSTEMS
from jaxner import tagging
from jaxner.data import batching
from jaxner.training import corpus, objectives, optimizers, step
from reproduce import plan

_FIGURES = tomllib.loads((plan.HERE / "figures.toml").read_text("utf-8"))
ORDERS = {name: table for name, table in _FIGURES.items() if "num_types" in table}
"""The papers' tables of speed: config and speed of systems; the first is the base."""

ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",  # no machine of Google's to ask
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
"""What the processes that compile need."""
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
HERE = "here"
BATCHES = {"train": (10, 32, 128), "tag": (1, 32, 128)}
LONGEST = 26  # tokens of a sentence
_BANDWIDTH = {"h100": 3.35e12, "v5e": 0.82e12}  # bytes a second
_LAUNCH = 2.5e-6  # seconds
# Operations of a program that start no kernel; of an asynchronous one, the start does.
_FREE = {"parameter", "tuple", "get-tuple-element", "constant", "bitcast"}
_FREE |= {"after-all", "partition-id", "replica-id", "optimization-barrier"}
_COLLECTIVES = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all"}
_COLLECTIVES |= {"collective-permute"}
_OPERATION = re.compile(r"\s+(?:ROOT )?%?[\w.\-]+ = (.*?) ([a-z][\w\-]*)\(")
_CALLED = re.compile(
    r"(?:body|calls|to_apply|(?:true|false)_computation|branch_computations)"
    r"=(\{.*?\}|[%\w.\-]+)"
)
_BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s64": 8, "f64": 8}


def count(text: str) -> dict[str, Any]:
    """Returns what a program runs on each device; loops are trips × kernels."""
    bodies: dict[str, list[str]] = {}
    name = entry = ""
    for line in text.splitlines():
        if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$", line):
            name = head[2]
            bodies[name] = []
            entry = name if head[1] else entry
        elif name:
            bodies[name].append(line)
    loops: list[str] = []

    def trips(line: str) -> int:
        if known := re.search(r'"known_trip_count":\{"n":"(\d+)"', line):
            return int(known[1])
        # A TPU's program compares the number of the trip with a constant.
        condition = "".join(bodies[re.findall(r"condition=%?([\w.\-]+)", line)[0]])
        return max(map(int, re.findall(r" constant\((\d+)\)", condition)), default=1)

    @functools.cache
    def of(name: str) -> np.ndarray:
        total = np.zeros(3, np.int64)  # kernels, collectives, their bytes
        for line in bodies[name]:
            if not (operation := _OPERATION.match(line)):
                continue
            shapes, kind = operation.groups()
            if kind.removesuffix("-done") in _COLLECTIVES:
                total[1:] += 1, _size(shapes)
            if kind in _FREE or kind.endswith("-done"):
                continue
            called = re.findall(r"[\w.\-]+", " ".join(_CALLED.findall(line)))
            inside = np.max([np.zeros(3, np.int64), *map(of, called)], axis=0)
            if kind == "while":
                loops.append(f"{trips(line)}×{inside[0]}")
                total += trips(line) * inside
            elif kind in ("call", "conditional"):
                total += inside  # of the longest branch
            else:  # a kernel, into which a collective may be fused
                total += 1, *inside[1:]
        return total

    kernels, collectives, size = of(entry).tolist()
    return {
        "kernels": kernels,
        "loops": " ".join(loops),
        "collectives": collectives,
        "collective MB": size / 1e6,
    }


def _size(shapes: str) -> int:
    """Returns the bytes of the arrays in the text of a type."""
    return sum(
        _BYTES.get(kind, 4) * math.prod(map(int, filter(None, sizes.split(","))))
        for kind, sizes in re.findall(r"([a-z]+\d*)\[([\d,]*)\]", shapes)
    )


def compile_for(function: Any, target: str, *args: Any, split: int) -> Any:
    """Returns a program for a target; argument `split` is split between its chips."""
    if target == HERE:
        return jax.jit(function).lower(*args).compile()
    if target == "h100":
        platform, name = "cuda", "gpu"
        options = {"topology": "1x1x1", "target_config": H100}
    else:
        platform, name = "tpu", f"v5e:{PODS[int(target.partition('-')[2])]}"
        options = {}
    devices = topologies.get_topology_desc(name, platform, **options).devices
    chips = Mesh(np.array(devices), ("data",), axis_types=(AxisType.Auto,))

    def described(parts: tuple[str, ...], leaf: Any) -> Any:
        kind = jax.typeof(leaf)
        sharding = NamedSharding(chips, PartitionSpec(*parts[: kind.ndim]))
        return jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=sharding)

    shapes = [
        jax.tree.map(functools.partial(described, ("data",) * (i == split)), arg)
        for i, arg in enumerate(args)
    ]
    traced = jax.jit(function).trace(*shapes)
    return traced.lower(lowering_platforms=(platform,)).compile()


def measure_here(program: Any, args: Sequence[Any], calls: int = 50) -> dict[str, Any]:
    """Returns how long a call of a program takes, and how many kernels it launches."""

    def seconds() -> float:
        start = time.perf_counter()
        for _ in range(calls):
            result = program(*args)  # the host runs ahead, as in training
        jax.block_until_ready(result)
        return (time.perf_counter() - start) / calls

    args = jax.device_put(args)
    seconds()
    median = statistics.median(seconds() for _ in range(5))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(program(*args))
        (file,) = Path(folder).rglob("*.xplane.pb")
        planes = list(jax.profiler.ProfileData.from_file(str(file)).planes)
    streams = [x for plane in planes if "GPU" in plane.name for x in plane.lines]
    names = [e.name for x in streams if x.name.startswith("Stream") for e in x.events]
    launched = sum("mem" not in name.lower() for name in names)  # Memcpy, Memset
    return {"ms": 1e3 * median, "launched": launched}


# --- Programs -------------------------------------------------------------------------


def programs(text: str, batch: int, types: list[str], changes: dict[str, Any]):
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
        choose = functools.partial(tagging.choose, tagger)
        return jax.vmap(choose, (tagging.batch_axes(batch),))(batch)

    rows, options = len(sentences), config.to_dict()
    text_on_device = corpus.Corpus(
        sentences, labels, tagger.model, batch_size=rows, num_blocks=1, num_shapes=1
    )
    ((shape, block),) = text_on_device.blocks([np.arange(rows)])
    block = jax.tree.map(lambda leaf: leaf[0], block)
    more = -shape.words % 256  # so that 256 chips have as many words each
    block = block._replace(words=np.pad(block.words, (0, more)))
    shape = shape._replace(words=shape.words + more)
    padded = batching.pad(sentences, shape, rows)
    optimizer = optimizers.build(options["optimizer"], 100, 10)
    objective = objectives.Objective.of(options["objective"])
    sizes = objectives.Sizes(rows, text_on_device.batches.mean_tokens)
    parts = tuple(options["optimizer"].get("parts") or ())
    recipe = step.Recipe(tagger.model, optimizer, objective, sizes, parts)
    state = step.init(tagger.weights["params"], optimizer, parts)

    def train(state, frozen, arrays, block, key):
        batch, labels = corpus.take(arrays, block, shape)
        key = jax.random.fold_in(key, state.step)
        args = frozen, batch, labels, block.places, key
        added = step.loss_and_gradient(recipe, state.params, *args)
        return step.update(recipe, state, *added)

    rest = tagger.weights["frozen"], text_on_device.arrays, block, jax.random.key(0)
    return {"train": (train, (state, *rest), 3), "tag": (tag, (tagger, padded), 1)}


def row(job: tuple[dict[str, Any], tuple[Any, ...]]) -> dict[str, Any]:
    """Returns the figures of a program, by the figures and arguments of a job."""
    about, (text, types, changes) = job
    mode, batch, target = about["mode"], about["batch"], about["target"]
    function, args, split = programs(text, batch, types, changes)[mode]
    start = time.perf_counter()
    program = compile_for(function, target, *args, split=split)
    seconds = time.perf_counter() - start
    counted, memory = count(program.as_text()), program.memory_analysis()
    moved = (program.cost_analysis() or {}).get("bytes accessed", 0.0)
    by_memory = moved / _BANDWIDTH.get(target.partition("-")[0], math.inf)
    by_launches = counted["kernels"] * _LAUNCH if target in ("h100", HERE) else 0.0
    measured = measure_here(program, args) if target == HERE else {}
    return {
        **about,
        **counted,
        "MB": (memory.argument_size_in_bytes + memory.temp_size_in_bytes) / 1e6,
        "estimate, ms": 1e3 * max(by_launches, by_memory),
        "compiled, s": seconds,
        **measured,
    }


def jobs(options: Any) -> Iterator[tuple[dict[str, Any], tuple[Any, ...]]]:
    """Yields what to compile: figures of a row, and arguments of `programs`."""
    if options.orders:
        for key, table in [*ORDERS.items()][: 1 if options.quick else None]:
            target = HERE if HERE in options.targets else "h100"
            about = {"table": key, "mode": table["mode"], "target": target}
            about["batch"] = {"train": 10, "tag": 128}[table["mode"]]
            rows = {name: x for name, x in table["values"].items() if "config" in x}
            types = [f"T{i}" for i in range(table["num_types"])]
            for name, x in [*rows.items()][: 2 if options.quick else None]:
                ratio = x["speed"] / next(iter(rows.values()))["speed"]
                program = x["config"], types, x.get("options", {})
                yield about | {"published": ratio, "system": name}, program
        return
    triples = itertools.product(options.systems, options.targets, options.modes)
    for system, target, mode in triples:
        text, chips = SYSTEMS[system], int(target.partition("-")[2] or 1)
        batches = options.batches or BATCHES[mode][: 1 if options.quick else None]
        for batch in sorted({-(-size // chips) * chips for size in batches}):
            about = {"system": system, "mode": mode, "batch": batch, "target": target}
            yield about, (text, CONLL_TYPES, {})


def main(argv: Sequence[str] | None = None) -> None:
    """Compiles in other processes; prints and stores each row as a line of JSON."""
    made = measure.parser(__doc__)
    made.add_argument("--systems", nargs="+", choices=SYSTEMS)
    made.add_argument("--targets", nargs="+", choices=(HERE, *TARGETS))
    made.set_defaults(targets=TARGETS)
    made.add_argument("--modes", nargs="+", choices=BATCHES, default=[*BATCHES])
    made.add_argument("--batches", nargs="+", type=int)
    made.add_argument("--orders", action="store_true")
    options = measure.parse(made, argv)
    is_here = HERE in options.targets
    os.environ.update({} if is_here else ENVIRONMENT)
    spawn = multiprocessing.get_context("spawn")
    bases: dict[Any, float] = {}  # figures of each table's first system
    with concurrent.futures.ProcessPoolExecutor(2 - is_here, spawn) as pool:
        for figures in pool.map(row, jobs(options)):
            for unit in {"kernels", "ms"} & figures.keys() if options.orders else ():
                base = bases.setdefault((figures["table"], unit), figures[unit])
                figures[f"by {unit}"] = base / figures[unit]
            line = json.dumps(figures, ensure_ascii=False)
            print(line, flush=True)
            if options.json:
                with open(options.json, "a", encoding="utf-8") as file:
                    print(line, file=file)


if __name__ == "__main__":
    main()

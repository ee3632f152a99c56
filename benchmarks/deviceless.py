r"""Compiles for an H100 and for TPU v5e pods, without either, and counts the kernels.

    python3.13 -m venv .deviceless
    .deviceless/bin/python -m pip install -e '.[deviceless]'
    .deviceless/bin/python -m benchmarks.deviceless --json results/deviceless.jsonl
    .deviceless/bin/python -m benchmarks.deviceless --json results/deviceless.jsonl \
      --orders --write

It needs CPython 3.12 or newer. Each row, a line of JSON, is a program of one system: a
training step on a batch, or a call that tags it, with weights drawn at random. The
sentences, of up to 26 tokens, come from the embedded corpus, and are split between the
chips, at least one for each. Rows of the file are compiled again only after an error:
when a model changes, delete it. `--write` puts its tables into docs/speed.md.

Small models are bound by the launches of kernels, so these are counted: a loop counts
its body times its trips. "MB" is what lies on each device. "estimate, ms", on an H100
alone, is no measurement but the larger of 2.5 µs a kernel and these MB over the
memory's bandwidth. "compiled, s" is processor time.

`--targets here` also runs each program, on this machine's device, be it a CPU: "ms" is
the time of a call, "launched" the kernels that the profiler saw in it, on a GPU.

`--orders` sets the papers' ratios of speed, from `reproduce/figures.toml`, beside those
of kernels on an H100 or, here, of time, with as many types as the paper's corpus and
batches of its size, or of 128 sentences; a document has eight.
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
import timeit
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
from jaxner import outputs, tagging
from jaxner.data import batching
from jaxner.training import cluster, corpus, objectives, optimizers, step
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
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # its compiler needs no library of CUDA
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
HERE = "here"
CHIPS = {HERE: 1, "h100": 1, **{f"v5e-{n}": n for n in PODS}}
TARGETS = [*CHIPS][1:]
# These save time. A TPU's arrays then stay in its main memory, without copies to the
# memory on the chip; an H100's kernels are as many, but slower.
_QUICK: Any = {"tpu": {"optimization_level": "O1"}}
_QUICK["cuda"] = {"xla_backend_optimization_level": 0}
BATCHES = {"train": (10, 32, 128), "tag": (1, 32, 128)}
LONGEST = 26  # tokens of a sentence
_LAUNCH, _BANDWIDTH = 2.5e-3, 3.35e9  # of an H100: ms, bytes a ms
KEY = ("table", "system", "mode", "batch", "target", "jax")  # of a row
PAGE = measure.ROOT / "docs" / "speed.md"
_UNITS = ("kernels", "MB", "estimate, ms", "collectives", "collective MB")
COLUMNS = {
    "H100: train 32": ("train", 32, "h100", *_UNITS[:3]),
    "tag 128": ("tag", 128, "h100", *_UNITS[:3]),
    **{f"v5e-{n}": ("train", max(n, 128), f"v5e-{n}", *_UNITS[: n + 2]) for n in PODS},
}
"""What the table shows: a program, and its units."""
# Operations of a program that start no kernel; of an asynchronous one, the start does.
_FREE = {"parameter", "tuple", "get-tuple-element", "constant", "bitcast"}
_FREE |= {"after-all", "partition-id", "replica-id", "optimization-barrier"}
_COLLECTIVES = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all"}
_COLLECTIVES |= {"collective-permute"}
_OPERATION = re.compile(r"\s+(?:ROOT )?%?[\w.\-]+ = (.*?) ([a-z][\w\-]*)\(")
_CALLED = re.compile(r"(?:body|calls|to_apply|\w+_computations?)=(\{.*?\}|[%\w.\-]+)")


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
        condition = whole(re.findall(r"condition=%?([\w.\-]+)", line)[0])
        return max(map(int, re.findall(r" constant\((\d+)\)", condition)))

    def whole(name: str) -> str:
        return "".join(x + "".join(map(whole, called(x))) for x in bodies[name])

    def called(line: str) -> list[str]:
        return re.findall(r"[\w.\-]+", " ".join(_CALLED.findall(line)))

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
            inside = np.max([np.zeros(3, np.int64), *map(of, called(line))], axis=0)
            if kind == "while":
                loops.append(f"{trips(line)}×{inside[0]}")
                total += trips(line) * inside
            elif kind in ("call", "conditional"):
                total += inside  # of the longest branch
            else:  # a kernel, into which a collective may be fused
                total += 1, *inside[1:]
        return total

    kernels, collectives, size = of(entry).tolist()
    figures = {"kernels": kernels, "loops": " ".join(loops)}
    return figures | {"collectives": collectives, "collective MB": size / 1e6}


def _size(shapes: str) -> int:
    """Returns the bytes of the arrays in the text of a type."""
    return sum(
        int(bits or 8) // 8 * math.prod(map(int, filter(None, sizes.split(","))))
        for bits, sizes in re.findall(r"[a-z](\d*)\[([\d,]*)\]", shapes)  # pred: 8 bits
    )


def mesh_of(target: str) -> Mesh | None:
    """Returns the chips of a target; None for this machine."""
    if target == HERE:
        return None
    chosen: Any = ("tpu", f"v5e:{PODS[CHIPS[target]]}", {})
    if target == "h100":
        chosen = ("cuda", "gpu", {"topology": "1x1x1", "target_config": H100})
    platform, name, options = chosen
    devices = topologies.get_topology_desc(name, platform, **options).devices
    return Mesh(np.array(devices), (cluster.DATA,), axis_types=(AxisType.Auto,))


def compile_for(function: Any, target: str, *args: Any) -> Any:
    """Returns a program for a target; argument 1, the batch, is split on its chips."""
    if (chips := mesh_of(target)) is None:
        return jax.jit(function).lower(*args).compile()
    platform = "cuda" if target == "h100" else "tpu"

    def described(parts: tuple[str, ...], leaf: Any) -> Any:
        kind = jax.typeof(leaf)
        sharding = NamedSharding(chips, PartitionSpec(*parts[: kind.ndim]))
        return jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=sharding)

    shapes = [
        jax.tree.map(functools.partial(described, (cluster.DATA,) * (i == 1)), arg)
        for i, arg in enumerate(args)
    ]
    traced = jax.jit(function).trace(*shapes)
    return traced.lower(lowering_platforms=(platform,)).compile(_QUICK[platform])


def measure_here(program: Any, args: Sequence[Any], calls: int = 50) -> dict[str, Any]:
    """Returns how long a call of a program takes, and how many kernels it launches."""

    def run() -> None:
        for _ in range(calls):
            result = program(*args)  # the host runs ahead, as in training
        jax.block_until_ready(result)

    args = jax.device_put(args)
    run()
    median = statistics.median(timeit.repeat(run, number=1, repeat=5)) / calls
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


def programs(
    text: str,
    batch: int,
    names: list[str],
    changes: dict[str, Any],
    mesh: Mesh | None = None,
):
    """Returns function and arguments, of them batch 1, of training and of tagging."""
    config = worker.config_of(text, changes)
    examples = [e for e in measure.load("sample", "train") if len(e[0]) <= LONGEST]
    tagger = worker.build(config, [tokens for tokens, _ in examples], names)
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
    cut: Any = {"batch_size": rows, "num_blocks": 1, "num_shapes": 1}
    chips = 1 if mesh is None else mesh.size
    text_on_device = corpus.Corpus(sentences, labels, tagger.model, parts=chips, **cut)
    plan, _ = text_on_device.batches.plan([0], 0)
    ((_, ((shape, _),), _),) = text_on_device.epoch([0], 0)
    padded = batching.pad(sentences, shape, rows)
    optimizer = optimizers.build(options["optimizer"], 100, 10)
    objective = objectives.Objective.of(options["objective"])
    sizes = objectives.Sizes(rows, text_on_device.batches.mean_tokens)
    parts = tuple(options["optimizer"].get("parts") or ())
    place = cluster.Placement(mesh)
    recipe = step.Recipe(tagger.model, optimizer, objective, sizes, parts, place)
    state = step.init(tagger.weights["params"], optimizer, parts)
    plan = jax.tree.map(lambda leaf: leaf[0], plan)
    rest = jax.random.key(0), tagger.weights["frozen"], text_on_device.arrays
    train = functools.partial(step.whole, recipe, shape)
    operands = state, None, plan, *rest, np.int32(0)
    return {"train": (train, operands), "tag": (tag, (tagger, padded))}


def row(job: tuple[dict[str, Any], tuple[Any, ...]]) -> dict[str, Any]:
    """Returns what a row is about, and its figures or its error."""
    about, (text, names, changes) = job
    try:
        return about | _figures(text, names, changes, **about)
    except Exception as error:  # the other rows go on
        return about | {"error": repr(error)}


def _figures(text, names, changes, *, mode, batch, target, **_: Any) -> dict[str, Any]:
    function, args = programs(text, batch, names, changes, mesh_of(target))[mode]
    start = sum(os.times()[:4])  # of all threads and child processes
    program = compile_for(function, target, *args)
    seconds = sum(os.times()[:4]) - start
    figures, memory = count(program.as_text()), program.memory_analysis()
    size = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    figures |= {"MB": size / 1e6, "compiled, s": seconds}
    if target == "h100":
        figures["estimate, ms"] = max(figures["kernels"] * _LAUNCH, size / _BANDWIDTH)
    if target == HERE:
        figures |= measure_here(program, args)
    return {k: round(x, 3) if isinstance(x, float) else x for k, x in figures.items()}


def jobs(options: Any) -> Iterator[tuple[dict[str, Any], tuple[Any, ...]]]:
    """Yields what to compile: figures of a row, and arguments of `programs`."""
    if options.orders:
        target = HERE if HERE in options.targets else "h100"
        for key, table in [*ORDERS.items()][: 1 if options.quick else None]:
            names = [f"T{i}" for i in range(table["num_types"])]
            systems = [*table["values"].items()]
            for name, x in systems[: 2 if options.quick else None]:
                about = {"table": key, "system": name, "mode": table["mode"]}
                about |= {"batch": table.get("batch", 128), "target": target}
                about |= {"published": x["speed"] / systems[0][1]["speed"]}
                if "config" in x:
                    program = x["config"], names, x.get("options", {})
                    yield about | {"jax": jax.__version__}, program
        return
    triples = itertools.product(options.systems, options.targets, options.modes)
    for system, target, mode in triples:
        sizes = options.batches or BATCHES[mode][: 1 if options.quick else None]
        n = CHIPS[target]
        for batch in sorted({-(-size // n) * n for size in sizes}):
            about = {"system": system, "mode": mode, "batch": batch, "target": target}
            yield about | {"jax": jax.__version__}, (SYSTEMS[system], CONLL_TYPES, {})


def tables(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Returns the page's tables, of programs and of the papers' orders, in Markdown."""
    by_key = {tuple(x[k] for k in KEY[1:-1]): x for x in rows if "table" not in x}

    def cell(system: str, mode: str, batch: int, target: str, *units: str) -> str:
        row = by_key.get((system, mode, batch, target), {})
        return ", ".join(measure.show(row[unit]) for unit in units if unit in row)

    programs = [["system", *COLUMNS]]
    programs += [
        [x, *(cell(x, *column) for column in COLUMNS.values())] for x in SYSTEMS
    ]
    orders = [["paper", "systems: published, by kernels"]]
    for key, x in ORDERS.items():
        cells = (
            f"{row['system']}: {row['published']:#.3g}, {row['by kernels']:#.3g}"
            for row in rows
            if row.get("table") == key and "by kernels" in row
        )
        orders.append([f"{x['paper']}, {x['source']}", "; ".join(cells)])
    texts = {"programs": programs, "orders": orders}
    for lines in texts.values():
        lines.insert(1, ["---"] * len(lines[0]))
    return {k: "".join(f"| {' | '.join(x)} |\n" for x in v) for k, v in texts.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Compiles in other processes; prints and stores each row; fails after errors."""
    made = measure.parser(__doc__)
    made.add_argument("--systems", nargs="+", choices=SYSTEMS)
    made.add_argument("--targets", nargs="+", choices=(HERE, *TARGETS), default=TARGETS)
    made.add_argument("--modes", nargs="+", choices=BATCHES, default=[*BATCHES])
    made.add_argument("--batches", nargs="+", type=int)
    made.add_argument("--orders", action="store_true")
    made.add_argument("--write", action="store_true")
    options = measure.parse(made, argv)
    is_here, rows = HERE in options.targets, []
    os.environ.update({} if is_here else ENVIRONMENT)
    if options.json and (file := Path(options.json)).exists():
        rows = map(json.loads, file.read_text("utf-8").splitlines())
        rows = [x for x in rows if "error" not in x]
    known = {tuple(map(x.get, KEY)) for x in rows}
    todo = [job for job in jobs(options) if tuple(map(job[0].get, KEY)) not in known]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2 - is_here, spawn) as pool:
        for new in pool.map(row, todo):
            rows.append(new)
            if options.orders:  # relative to the table's first system
                same = (x for x in rows if x.get("table") == new["table"])
                first = next((x for x in same if x["published"] == 1), {})
                for unit in {"kernels", "ms"} & first.keys() & new.keys():
                    new[f"by {unit}"] = first[unit] / new[unit]
            print(json.dumps(new, ensure_ascii=False), flush=True)
            if options.json:
                lines = (json.dumps(x, ensure_ascii=False) + "\n" for x in rows)
                outputs.write_text(Path(options.json), "".join(lines))
    if options.write:
        page = PAGE.read_text("utf-8")
        for name, text in tables(rows).items():
            ends = f"(?s)(<!-- {name} -->\n).*(<!-- /{name} -->)"
            page = re.sub(ends, rf"\1\n{text}\n\2", page)
        outputs.write_text(PAGE, page)
    if flaws := sum("error" in row for row in rows):
        raise SystemExit(f"{flaws} rows have an error")


if __name__ == "__main__":
    main()

r"""Compiles for an H100 and for TPU v5e pods, without either: what would run there?

    python3.13 -m venv .deviceless
    .deviceless/bin/python -m pip install -e '.[deviceless]'
    .deviceless/bin/python -m benchmarks.deviceless --json results/deviceless.jsonl \
      --write

It needs CPython 3.12 or newer. Each row, a line of JSON, is a program of one system, as
`train.py` compiles it for a step. Weights are random, all sentences have equally many
tokens, of the embedded corpus. Rows of the file are compiled again only after an error:
when a model changes, delete it. `--write` puts its tables into docs/speed.md.

On an H100, XLA writes down what the host starts: a command buffer (a CUDA graph of many
kernels) is one start, a loop outside of them as many a trip as its body has.

kernels          all that run on the device, copies too: in a loop, trips × its body
buffers, loops   command buffers; loops outside of them
starts           of the host, for a call; `captured`: with XLA's flag `CAPTURE`
in place         arguments that keep their addresses, as the call writes into them
constant         arguments that are the same arrays at each call (of an epoch)
new              arguments, or results, at other addresses

For TPUs, collectives (one in a loop counts once) and their MB are counted. "MB" is
memory of each device.
"""

import concurrent.futures
import functools
import itertools
import json
import math
import multiprocessing
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from reproduce import tables

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
PODS = {8: "2x4", 256: "16x16"}
"""Topology of a v5e pod, by its number of chips."""
CAPTURE = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,"
    "DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
}
"""The flag with which command buffers hold loops, too."""
# These save time. A TPU's arrays then stay in its main memory, without copies to the
# memory on the chip; an H100's kernels are as many, but slower.
_QUICK: dict[str, dict[str, Any]] = {"tpu": {"optimization_level": "O1"}}
_QUICK["cuda"] = {"xla_backend_optimization_level": 0}
TOKENS = (32, 64, 128)  # of each sentence
KEY = ("system", "batch", "tokens", "target", "jax")  # of a row
PAGE = measure.ROOT / "docs" / "speed.md"
_CONTAINERS = {"kCommandBuffer", "kWhile", "kConditional", "kSequential"}  # hold thunks
_COLLECTIVES = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"


def starts(thunks: str, trips: Mapping[int, int]) -> dict[str, int]:
    """Returns what a program of a GPU runs, from XLA's text of its thunks.

    `trips` are those of loops, by the number of their thunk.
    """
    total: Counter[str] = Counter()
    parents = [(-1, 1, False)]  # indentation, times, in a command buffer?
    for indentation, number, kind in re.findall(r"(?m)^( *)(\d+): (k\w+)", thunks):
        while parents[-1][0] >= len(indentation):
            parents.pop()
        _, times, is_captured = parents[-1]
        if kind not in _CONTAINERS:
            total["kernels"] += times
        elif kind == "kWhile":
            total["loops"] += not is_captured
            times *= trips[int(number)]
        is_buffer = kind == "kCommandBuffer"
        total["buffers"] += is_buffer
        if not is_captured and (is_buffer or kind not in _CONTAINERS):
            total["starts"] += times
        parents.append((len(indentation), times, is_captured or is_buffer))
    return {name: total[name] for name in ("kernels", "buffers", "loops", "starts")}


def addresses(text: str) -> dict[str, int]:
    """Returns how many arguments of a program keep their addresses, by the reason."""
    entry = text[text.index("\nENTRY ") :]
    names = dict(re.findall(r'parameter\((\d+)\).*?op_name="([^"]*)"', entry))
    alias = re.search(r"input_output_alias=\{(.*)\}, entry", text)
    aliases = set(re.findall(r": \((\d+),", alias[1] if alias else ""))
    # The state of training, and vectors that stream.
    changing = {n for n, x in names.items() if re.match(r"(state|vectors)\b", x)}
    rest = names.keys() - changing
    kinds = {"in place": aliases, "constant": rest, "new": changing - aliases}
    return {kind: len(numbers) for kind, numbers in kinds.items()}


def collectives(text: str) -> dict[str, float]:
    """Returns how many collectives a program has, and their MB."""
    results = re.findall(rf"= (.*?) (?:{_COLLECTIVES})(?:-done)?\(", text)
    sizes = (
        int(bits or 8) // 8 * math.prod(map(int, filter(None, shape.split(","))))
        for shapes in results
        for bits, shape in re.findall(r"[a-z](\d*)\[([\d,]*)\]", shapes)  # pred: 8 bits
    )
    return {"collectives": len(results), "collective MB": sum(sizes) / 1e6}


@functools.cache  # two descriptions of a device are different devices
def mesh_of(target: str) -> Mesh:
    """Returns the devices of a target, for one restart."""
    topology: Any = ("cuda", "gpu", {"topology": "1x1x1", "target_config": H100})
    if target != "h100":
        topology = ("tpu", f"v5e:{PODS[int(target.removeprefix('v5e-'))]}", {})
    platform, name, options = topology
    devices = topologies.get_topology_desc(name, platform, **options).devices
    axes, kinds = (cluster.SEED, cluster.DATA), (AxisType.Auto,) * 2
    return Mesh(np.array(devices)[None], axes, axis_types=kinds)


def compile_for(program: Any, target: str, *args: Any, **options: Any) -> Any:
    """Returns a compiled program of `jax.jit` for a target; arrays are on all chips."""
    whole = NamedSharding(mesh_of(target), PartitionSpec())
    shapes = jax.eval_shape(lambda *leaves: leaves, *args)
    shapes = jax.tree.map(lambda leaf: leaf.update(sharding=whole), shapes)
    platform = "cuda" if target == "h100" else "tpu"
    lowering = program.trace(*shapes).lower(lowering_platforms=(platform,))
    return lowering.compile(_QUICK[platform] | options)


def thunks(program: Any, *args: Any, **options: Any) -> tuple[Any, dict[str, int]]:
    """Returns a program for an H100, and what it runs there."""
    with tempfile.TemporaryDirectory() as folder:
        result = compile_for(program, "h100", *args, xla_dump_to=folder, **options)

        def read(name: str) -> str:
            (file,) = Path(folder).glob(f"*.{name}.txt")
            return file.read_text("utf-8")

        ids = re.findall(r'"(while[^"]*)"\s+thunk_id: (\d+)', read("thunk_metadata"))
        loops = rf"%?({'|'.join(map(re.escape, dict(ids)))}) = .* while\(.*"
        pattern = loops + r'"known_trip_count":\{"n":"(\d+)"'
        times = dict(re.findall(pattern, result.as_text()))
        trips = {int(number): int(times[name]) for name, number in ids}
        return result, starts(read("thunk_sequence_after_thunk_passes"), trips)


# --- Programs -------------------------------------------------------------------------


def text_of(tokens: int, count: int) -> list[list[str]]:
    """Returns sentences of some tokens each, of the embedded corpus."""
    words = [word for words, _ in measure.load("sample", "train") for word in words]
    starts = range(0, len(words) - tokens, tokens)
    sentences = [words[start : start + tokens] for start in starts]
    return (sentences * -(-count // len(sentences)))[:count]


def programs(
    text: str,
    batch: int,
    tokens: int,
    names: list[str],
    changes: dict[str, Any],
    mesh: Mesh | None = None,
) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Returns programs of training and of tagging, and their arguments."""
    config = worker.config_of(text, changes)
    texts = text_of(tokens, batch)
    tagger = worker.build(config, texts, names)
    sentences = [tagger.vocabulary.encode(words) for words in texts]
    labels = [np.zeros(tokens, np.int32) for _ in texts]
    if tagger.vocabulary.reads_documents:
        numbers = [i // 8 for i in range(batch)]
        sentences, labels = batching.joined(numbers, sentences, labels, 0)
    rows, options, place = len(sentences), config.to_dict(), cluster.Placement(mesh)
    sizes: Any = {"batch_size": rows, "num_blocks": 1, "num_shapes": 1}
    text_on_device = corpus.Corpus(
        sentences, labels, tagger.model, parts=place.num_parts, **sizes
    )
    ((plan, ((shape, vectors),), _),) = text_on_device.epoch([0], 0)
    parts = tuple(options["optimizer"].get("parts") or ())
    recipe = step.Recipe(
        tagger.model,
        optimizers.build(options["optimizer"], 100, 10),
        objectives.Objective(**options["objective"]),
        objectives.Sizes(rows, text_on_device.batches.mean_tokens),
        parts,
        place,
    )
    state = step.init(tagger.weights["params"], recipe.tx, parts)
    state = jax.tree.map(lambda leaf: leaf[None], state)  # of one restart
    train = step.program(recipe, shape, True, True, 1)
    rest = tagger.weights["frozen"], text_on_device.arrays
    operands = None, state, vectors, plan, jax.random.key(0)[None], *rest

    @jax.jit
    def tag(tagger, batch):
        choose = functools.partial(tagging.choose, tagger)
        return jax.vmap(choose, (tagging.batch_axes(batch),))(batch)

    batch_rows = batching.pad(sentences, shape, rows)
    return {"train": (train, operands), "tag": (tag, (tagger, batch_rows))}


def figures_of(
    system: str, batch: int, tokens: int, target: str, **_: Any
) -> dict[str, Any]:
    """Returns the figures of what a row is about."""
    is_pod = target != "h100"
    mesh = mesh_of(target) if is_pod else None
    work = SYSTEMS[system], batch, tokens, CONLL_TYPES, {}, mesh
    train, args = programs(*work)["train"]
    figures: dict[str, Any] = {}
    if is_pod:
        executable = compile_for(train, target, *args)
        figures |= collectives(executable.as_text())
    else:
        executable, figures = thunks(train, *args)
        # Without a loop outside of command buffers, the flag changes nothing.
        extra = thunks(train, *args, **CAPTURE)[1] if figures["loops"] else figures
        figures["captured"] = extra["starts"]
        figures |= addresses(executable.as_text())
    memory = executable.memory_analysis()
    size = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    figures["MB"] = size / 1e6
    return {k: round(x, 3) if isinstance(x, float) else x for k, x in figures.items()}


def jobs(options: Any) -> Iterator[dict[str, Any]]:
    """Yields what to compile: what each row is about; pods train on one size."""
    for system in options.systems:
        sizes = [("h100", 32, tokens) for tokens in options.tokens]
        sizes += [(f"v5e-{chips}", max(128, chips), TOKENS[0]) for chips in PODS]
        for target, batch, tokens in sizes:
            facts = {"system": system, "batch": batch, "tokens": tokens}
            yield facts | {"target": target, "jax": jax.__version__}


def tables_of(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Returns the page's tables, in Markdown."""
    counts = "kernels", "buffers", "loops", "starts", "captured"
    sizes = [{"target": "h100", "tokens": n} for n in TOKENS]
    train: dict[str, Any] = {f"{x['tokens']} tokens": (counts, x) for x in sizes}
    train["arguments"] = ("in place", "constant", "new"), sizes[0]
    train["memory"] = ("MB",), sizes[-1]
    units = "MB", "collectives", "collective MB"
    pods: dict[str, Any] = {f"{n} chips": (units, {"target": f"v5e-{n}"}) for n in PODS}
    texts = {}
    for name, columns in {"train": train, "pods": pods}.items():
        lines = [[system] for system in SYSTEMS]
        for line, (units, facts) in itertools.product(lines, columns.values()):
            items = {"system": line[0], **facts}.items()
            matches = [x for x in rows if items <= x.items()]
            line.append(", ".join(measure.show(x[u]) for x in matches for u in units))
        texts[name] = tables.markdown(["system", *columns], lines)
    return texts


def main(argv: Sequence[str] | None = None) -> None:
    """Compiles in other processes; prints and stores each row; fails after errors."""
    parser = measure.parser(__doc__)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--tokens", nargs="+", type=int, default=TOKENS)
    parser.add_argument("--write", action="store_true", help="tables into the page")
    options = measure.parse(parser, argv)
    os.environ.update(ENVIRONMENT)
    file = Path(options.json or os.devnull)
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    rows = [x for x in map(json.loads, lines) if "error" not in x]
    known = [{name: x[name] for name in KEY} for x in rows]
    todo = [job for job in jobs(options) if job not in known]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, spawn) as pool:
        todo = todo[: 1 if options.quick else None]
        for job, future in [(job, pool.submit(figures_of, **job)) for job in todo]:
            error = future.exception()  # the other rows go on
            rows.append(job | ({"error": repr(error)} if error else future.result()))
            lines = [json.dumps(x, ensure_ascii=False) + "\n" for x in rows]
            print(lines[-1], end="", flush=True)
            outputs.write_text(file, "".join(lines))
    if options.write:
        page = PAGE.read_text("utf-8")
        for name, text in tables_of(rows).items():
            marks = f"<!-- {name} -->\n", f"<!-- /{name} -->"
            page = tables.inserted(page, text, marks)
        outputs.write_text(PAGE, page)
    if flaws := sum("error" in row for row in rows):
        raise SystemExit(f"{flaws} rows have an error")


if __name__ == "__main__":
    main()

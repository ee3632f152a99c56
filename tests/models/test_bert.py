"""Pretrained encoders: frozen numbers of PyTorch, windows, and folders."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from jaxner.errors import InputError
from jaxner.models import pretrained
from jaxner.models.bert import BERT, WordPieces
from jaxner.types import Pieces
from tests.golden.make_encoders import FILE, IDS, MASK, SMALL, write
from tests.golden.make_encoders import tensors as tensors_of
from tests.marks import slow
from tests.models.draws import apply, close, weights_of


def window(ids, size=None):
    ids = jnp.array([*ids, *[0] * ((size or len(ids)) - len(ids))], jnp.int32)
    return ids, jnp.arange(len(ids)) < len(np.trim_zeros(np.asarray(ids), "b"))


CASES = list(map(json.loads, FILE.read_text().splitlines()))
CASE_OF = {case["config"]["model_type"]: case for case in CASES}
CONFIG, TENSORS = CASE_OF["bert"]["config"], tensors_of(CASE_OF["bert"]["shapes"])


def opened(kind, folder):
    """The encoder of a case, its weights, and a function from ids and mask."""
    write(folder, CASE_OF[kind]["config"], tensors_of(CASE_OF[kind]["shapes"]))
    model = pretrained.make(pretrained.sizes(folder))
    weights, _ = pretrained.read(folder)
    return model, weights, functools.partial(apply, model, {"params": weights})


@pytest.mark.parametrize("kind", CASE_OF)
def test_golden_states_of_the_last_layer(kind, tmp_path):
    _, _, run = opened(kind, tmp_path)
    assert {*CASE_OF} == {*pretrained.FAMILIES}
    # Padding beyond the last position.
    ids, mask = (np.pad(rows, ((0, 0), (0, 9))) for rows in (IDS, MASK))
    states = np.asarray(jax.vmap(run)(ids, mask))
    np.testing.assert_allclose(states[mask], CASE_OF[kind]["states"], rtol=0, atol=5e-6)
    assert not states[~mask].any()


@pytest.mark.parametrize("kind", ["bert", *slow("modernbert", "deberta-v2")])
def test_saving_memory_changes_no_gradient(kind, tmp_path):
    model, weights, _ = opened(kind, tmp_path)

    def noisy(model):
        def loss(weights):
            key, inputs = jax.random.key(0), (IDS[0], MASK[0])
            return apply(model, {"params": weights}, *inputs, key=key)[:, 0].sum()

        return jax.jit(jax.value_and_grad(loss))(weights)

    value, slopes = noisy(model)
    close(noisy(model.clone(remat=True)), (value, slopes))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    quiet = np.sum(CASE_OF[kind]["states"][: MASK[0].sum()], axis=0)[0]
    assert np.allclose(value, quiet) == (kind == "modernbert")  # its rates are 0


def test_padding_alone_has_no_gradient():
    model = BERT(**SMALL)
    weights = weights_of(model, *window([1]))
    slopes = jax.jit(jax.grad(lambda w, *a: apply(model, w, *a)[:, 0].sum()))
    slope = slopes(weights, *window([], 4))
    assert not any(leaf.any() for leaf in jax.tree.leaves(slope))  # nor NaN
    real = slopes(weights, *window([1, 7, 2], 4))
    for name, leaf in real["params"]["layers"]["query"].items():
        assert jnp.isfinite(leaf).all()
        assert leaf.any(axis=tuple(range(1, leaf.ndim))).all(), name  # every layer


@pytest.mark.parametrize("pool", ["first", "mean"])
def test_tokens_have_the_states_of_their_pieces(pool):
    ids, mask = zip(window([1, 7, 2, 3, 4], 6), window([1, 2, 9, 4], 6), strict=True)
    # The first token has two pieces, the second one, the third two in both windows.
    positions = np.array([[1, 2], [3, -1], [3, 8], [-1, -1]], np.int32)
    pieces = Pieces(np.stack(ids), np.stack(mask), positions)
    model = WordPieces(BERT(**SMALL), pool)
    weights = weights_of(model, pieces)
    encoder = {"params": weights["params"]["encoder"]}
    windows = zip(pieces.windows, pieces.mask, strict=True)
    states = np.concatenate([apply(model.encoder, encoder, *row) for row in windows])
    if pool == "first":
        expected = [states[1], states[3], states[3], 0 * states[0]]
    else:
        rows = states[[1, 3, 3, 0]], states[[2, 3, 8, 0]]
        expected = np.array([[1], [1], [1], [0]]) * np.mean(rows, axis=0)
    with jax.numpy_dtype_promotion("strict"):
        close(apply(model, weights, pieces), np.stack(expected))


def test_windows_have_dropout_of_their_own():
    pair = (np.stack([x, x]) for x in window([1, 7, 2]))
    windows = Pieces(*pair, np.array([[1], [4]], np.int32))
    model = WordPieces(BERT(**SMALL, hidden_dropout_prob=0.5))
    states = apply(model, weights_of(model, windows), windows, key=jax.random.key(1))
    assert not np.allclose(states[0], states[1])


def heads(tensors):
    """Names as in the folder of a model with heads, converted from TensorFlow."""
    older = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    result = {"cls.predictions.bias": np.zeros(3, np.float32)}
    for name, array in tensors.items():
        for today, old in older.items():
            name = name.replace(today, old)
        result[f"bert.{name}"] = array
    result["bert.pooler.dense.bias"] = np.zeros(12, np.float32)
    result["bert.embeddings.position_ids"] = np.arange(16)[None]
    return result


def test_older_names_heads_and_shards_give_the_same_weights(tmp_path):
    (tmp_path / "shards").mkdir()
    plain, _ = pretrained.read(write(tmp_path / "plain", CONFIG, TENSORS))
    below, _ = pretrained.read(write(tmp_path / "heads", CONFIG, heads(TENSORS)))
    close(below, plain, 0)
    names, shards = sorted(TENSORS), tmp_path / "shards"
    files = {"model-1.safetensors": names[:5], "model-2.safetensors": names[5:]}
    for file, subset in files.items():
        save_file({n: TENSORS[n] for n in subset}, shards / file)
    index = {"weight_map": {n: file for file, ns in files.items() for n in ns}}
    (shards / "model.safetensors.index.json").write_text(json.dumps(index))
    (shards / "config.json").write_text(json.dumps(CONFIG))
    close(pretrained.read(shards)[0], plain, 0)
    assert plain["layers"]["intermediate"]["kernel"].shape == (3, 12, 20)


def test_tensors_that_do_not_fit_are_named(tmp_path):
    bias, dense = (f"encoder.layer.0.output.dense.{x}" for x in ("bias", "weight"))
    for tensors, name in (
        ({k: v for k, v in TENSORS.items() if k != bias}, bias),
        ({**TENSORS, "encoder.layer.1.more": TENSORS[bias]}, "encoder.layer.1.more"),
        ({**TENSORS, bias: TENSORS[bias][:5]}, bias),
        ({**TENSORS, dense: TENSORS[dense][:, :5].copy()}, dense),
        ({**TENSORS, bias: TENSORS[bias] + np.nan}, f"{bias}, got NaN or infinity"),
        ({**TENSORS, bias: TENSORS[bias].astype(np.int8)}, f"{bias}, got int8"),
        ({**TENSORS, bias: TENSORS[bias].astype(np.complex64)}, "got complex64"),
        ({**TENSORS, bias: TENSORS[bias].astype(jnp.float8_e4m3fn)}, "float8"),
    ):
        write(tmp_path, CONFIG, tensors)
        with pytest.raises(InputError, match=rf"model\.safetensors: .*{name}"):
            pretrained.read(tmp_path)


FAR, YARN = {"max_position_embeddings": 10**12}, {"rope_type": "yarn", "factor": 4.0}


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("modernbert", FAR, "max_position_embeddings .* at most 65536"),
        ("modernbert", {"rope_parameters": {"full_attention": YARN}}, "'default'"),
        ("modernbert", {"rope_parameters": YARN}, "'default'"),
        ("modernbert", {"rope_scaling": YARN}, "no rope_scaling"),
        ("modernbert", {"layer_types": None, "global_attn_every_n_layers": 0}, "zero"),
        ("modernbert", {"num_hidden_layers": 10**30}, "num_hidden_layers .* at most"),
        ("modernbert", {"hidden_size": 9}, r"config\.json: cannot be used"),
        ("mpnet", {"relative_attention_num_buckets": 64}, "num_buckets 32, got 64"),
        ("deberta-v2", {"position_buckets": 1}, "cannot be used: divi"),
        ("deberta-v2", {"pos_att_type": 5}, "expected pos_att_type c2p and p2c, got 5"),
        ("roberta", {"pad_token_id": None}, "pad_token_id must be a whole number"),
    ],
)
def test_sizes_that_no_weight_shows_are_checked(kind, change, message, tmp_path):
    case = CASE_OF[kind]
    write(tmp_path, case["config"] | change, tensors_of(case["shapes"]))
    with pytest.raises(InputError, match=message):
        pretrained.read(tmp_path)


def test_folders_that_cannot_be_read(tmp_path):
    config, index = "config.json", "model.safetensors.index.json"
    changes = {"model_type": "gpt2", "is_decoder": True, "hidden_act": []}
    changes |= {"hidden_size": "12", "num_attention_heads": 5}
    for name, content, error, message in (
        (config, None, FileNotFoundError, None),
        (config, "[]", InputError, config),
        (config, "{", InputError, config),
        (config, '{"model_type": "bert", "vocab_size": 3}', InputError, config),
        *(
            (config, json.dumps(CONFIG | {name: value}), InputError, name)
            for name, value in changes.items()
        ),
        (config, json.dumps(CONFIG), FileNotFoundError, None),
        ("pytorch_model.bin", "no pickle is opened", FileNotFoundError, "AutoModel"),
        (index, "{}", InputError, index),
        (index, '{"weight_map": {"a": 1}}', InputError, index),
        (index, '{"weight_map": {"a": "../a"}}', InputError, "not in its folder"),
        ("model.safetensors", "nor is this one", InputError, "safetensors"),
    ):
        if content is not None:
            (tmp_path / name).write_text(content)
        with pytest.raises(error, match=message):
            pretrained.read(tmp_path)


def test_mpnet_counts_from_2_whatever_its_padding_as_in_transformers(tmp_path):
    write(tmp_path, CASE_OF["mpnet"]["config"] | {"pad_token_id": 0}, {})
    assert pretrained.sizes(tmp_path)["first_position"] == 2

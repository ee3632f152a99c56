"""Makes bert.json: what transformers' PyTorch BertModel computes from known weights.

    python -m tests.golden.make_bert       (needs torch and transformers)

The weights are sines of their index, so that they need no file.
"""

import json
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("bert.json")
BASE = {
    "model_type": "bert",
    "vocab_size": 30,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
}
CONFIGS = [
    BASE,
    BASE | {"hidden_act": "gelu_new", "num_attention_heads": 2, "layer_norm_eps": 0.1},
    BASE | {"hidden_act": "relu", "num_hidden_layers": 1, "intermediate_size": 7},
]
# Windows of several lengths, all padded to seven pieces.
IDS = [[2, 9, 29, 11, 4, 17, 3], [2, 5, 5, 3, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0]]
LENGTHS = [7, 4, 1]


def shapes(config):
    """The name and shape of each tensor, as in a Hugging Face file."""
    size, wide = config["hidden_size"], config["intermediate_size"]

    def dense(name, into, out):
        return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}

    def norm(name):
        return {f"{name}.weight": (size,), f"{name}.bias": (size,)}

    sizes = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], size),
        "embeddings.position_embeddings.weight": (
            config["max_position_embeddings"],
            size,
        ),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], size),
        **norm("embeddings.LayerNorm"),
    }
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        for name in ("query", "key", "value"):
            sizes |= dense(f"{layer}.attention.self.{name}", size, size)
        sizes |= dense(f"{layer}.attention.output.dense", size, size)
        sizes |= norm(f"{layer}.attention.output.LayerNorm")
        sizes |= dense(f"{layer}.intermediate.dense", size, wide)
        sizes |= dense(f"{layer}.output.dense", wide, size)
        sizes |= norm(f"{layer}.output.LayerNorm")
    return sizes


def tensors(config):
    """Weights that no random generator draws."""
    made = {}
    for n, (name, shape) in enumerate(shapes(config).items()):
        values = np.sin(1.3 * np.arange(np.prod(shape)) + 0.7 * n).reshape(shape)
        is_scale = name.endswith("LayerNorm.weight")
        made[name] = (1 + 0.2 * values if is_scale else 0.6 * values).astype(np.float32)
    return made


def compute(config):
    """What PyTorch computes: the states of each layer, at the true pieces."""
    import torch
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(**config), add_pooling_layer=False).eval()
    weights = {name: torch.tensor(array) for name, array in tensors(config).items()}
    model.load_state_dict(weights, strict=False)
    mask = torch.arange(len(IDS[0])) < torch.tensor(LENGTHS)[:, None]
    with torch.no_grad():
        output = model(
            torch.tensor(IDS), attention_mask=mask.long(), output_hidden_states=True
        )
    states = torch.stack(output.hidden_states[1:], dim=1)
    return [
        np.round(layers[:, :length].double().numpy(), 7).tolist()
        for layers, length in zip(states, LENGTHS, strict=True)
    ]


if __name__ == "__main__":
    FILE.write_text(json.dumps([compute(config) for config in CONFIGS]) + "\n")

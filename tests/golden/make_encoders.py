"""Small pretrained encoders of known weights, and the inputs of their golden states.

encoders.json has, for each encoder, its config, the shapes of its tensors, and what
transformers' PyTorch computes from the weights below. The program of this name in
f55d76b wrote it (it needs torch and transformers).
"""

import json
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("encoders.json")
SMALL = {
    "vocab_size": 30,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
}
IDS = 4 + np.arange(3 * 14).reshape(3, 14) * 7 % 25
MASK = np.arange(14) < np.array([14, 5, 1])[:, None]


def tensors(shapes, scale=0.3):
    """Weights that no random generator draws."""
    arrays = {}
    for n, (name, shape) in enumerate(shapes.items()):
        values = np.sin(1.3 * np.arange(np.prod(shape)) + 0.7 * n).reshape(shape)
        is_scale = len(shape) == 1 and name.endswith("weight")
        values = 1 + 0.2 * values if is_scale else scale * values
        arrays[name] = values.astype(np.float32)
    return arrays


def write(folder, config, weights):
    """Writes a folder as Hugging Face's `save_pretrained` does, without a tokenizer."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors")
    return folder

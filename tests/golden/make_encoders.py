"""Writes encoders.json: what transformers' PyTorch computes, for the tests.

    python -m tests.golden.make_encoders       (needs torch and transformers)

The file has, for each encoder, its config, the shapes of its tensors, and what PyTorch
computes from known weights: sines of their index, so that they need no file.
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
DISTIL = {
    **{"vocab_size": 30, "dim": 12, "n_layers": 2, "n_heads": 2, "hidden_dim": 20},
    "max_position_embeddings": 16,
}
DEBERTA = {
    **{"relative_attention": True, "position_buckets": 4, "share_att_key": True},
    **{"pos_att_type": ["c2p", "p2c"], "norm_rel_ebd": "layer_norm"},
    **{"position_biased_input": False, "type_vocab_size": 0},
}
TOKENS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
MODERN = {"local_attention": 4, "cls_token_id": 2, "sep_token_id": 3, **TOKENS}
CONFIGS = {
    "bert": SMALL,
    "electra": SMALL | {"embedding_size": 8, "hidden_act": "relu"},
    "roberta": SMALL | {"max_position_embeddings": 20, "hidden_act": "gelu_new"},
    "xlm-roberta": SMALL | {"max_position_embeddings": 20, "type_vocab_size": 1},
    "camembert": SMALL | {"max_position_embeddings": 20},
    "distilbert": DISTIL,
    "mpnet": SMALL | {"max_position_embeddings": 20},
    "deberta-v2": SMALL | DEBERTA,
    "modernbert": SMALL | MODERN | {"num_hidden_layers": 4},
}
# Windows of several lengths, all padded to as many pieces.
LENGTHS = [14, 5, 1]
IDS = 4 + np.arange(3 * 14).reshape(3, 14) * 7 % 25
MASK = np.arange(14) < np.array(LENGTHS)[:, None]


def tensors(shapes, scale=0.3):
    """Weights that no random generator draws."""
    made = {}
    for n, (name, shape) in enumerate(shapes.items()):
        values = np.sin(1.3 * np.arange(np.prod(shape)) + 0.7 * n).reshape(shape)
        is_scale = len(shape) == 1 and name.endswith("weight")
        made[name] = (1 + 0.2 * values if is_scale else scale * values).astype(
            np.float32
        )
    return made


def write(folder, config, weights):
    """Writes a folder as Hugging Face's `save_pretrained` does, without a tokenizer."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors")
    return folder


def compute(kind, options):
    """The config, the tensors' shapes, and PyTorch's states of the last layer."""
    import torch
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(kind, **options)
    model = AutoModel.from_config(config).eval()
    shapes = {
        name: list(tensor.shape)
        for name, tensor in sorted(model.state_dict().items())
        if "pooler" not in name
    }
    weights = {name: torch.tensor(array) for name, array in tensors(shapes).items()}
    model.load_state_dict(weights, strict=False)
    ids, mask = torch.tensor(IDS * MASK), torch.tensor(MASK)
    ids = torch.where(mask, ids, config.pad_token_id)
    with torch.no_grad():
        output = model(ids, attention_mask=mask.long(), output_hidden_states=True)
    return config.to_dict(), shapes, output.hidden_states[-1].numpy()[MASK]


def main():
    """Writes the states of the last layer of each encoder."""
    cases = []
    for kind, options in CONFIGS.items():
        config, shapes, states = compute(kind, options)
        config = {
            k: v for k, v in config.items() if not isinstance(v, dict) or "rope" in k
        }
        states = np.round(states.astype(float), 7).tolist()
        cases.append({"config": config, "shapes": shapes, "states": states})
    FILE.write_text("\n".join(map(json.dumps, cases)) + "\n")


if __name__ == "__main__":
    main()

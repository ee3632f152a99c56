r"""BERT-Softmax, BERT-CRF and BERT-UANet (the last rows of Gui et al.'s, 2020, tables).

    python train.py --config configs/bert.py --config.data.pretrained=FOLDER
    python train.py --config configs/bert.py:conll2003,model=uanet …

Published: entity F1 on CoNLL-2003 test 91.62, 91.71 and 92.02.

`data.pretrained` is a local folder in Hugging Face's layout: config.json,
model.safetensors and vocab.txt; only the start of a run needs it. Sentences too long
for the encoder are split into overlapping windows.

Learning rates (`optimizer.parts.bert.learning_rate`, decay on all weights) and numbers
of epochs are ours: neither the paper nor the authors' code gives them. UANet's draft is
a variational LSTM on BERT's vectors; its refinement reads the same vectors. Its label
vectors start from U(±1), not U(±600) as in `configs/uanet.py`, whose gradient would
take almost all of the joint clip. (Not measured with BERT's weights.)

After the colon: the data set, and

    model=softmax    a linear layer on BERT's vectors (the default)
    model=crf        the same under a CRF
    model=uanet      draft and refinement
    pool=mean        a token is the mean of its word pieces, not the first of them
"""

from jaxner import configuration, families


@configuration.options(model=("softmax", "crf", "uanet"), pool=("first", "mean"))
def get_config(config, arg):
    """Sets the options."""
    config.num_epochs = 10
    config.batch_size = 16
    if arg.dataset == "sample":
        config.data.num_shapes = 3
    config.model.representation = {
        "words": None,
        "chars": None,
        "bert": {"pool": arg.pool},  # its dropout is that of its config.json
        "dropout": 0.0,
    }
    config.model.encoder = {"name": "identity"}
    config.model.head = families.torch_head(arg.model == "crf", dropout=0.1)
    warm = {"name": "adamw", "warmup": 0.1}
    tuned = {**warm, "learning_rate": 3e-5, "weight_decay": 0.01}
    head = {**warm, "learning_rate": 1e-3, "clip_norm": 1.0}
    config.optimizer = {**head, "parts": {"bert": tuned}}
    if arg.model == "uanet":  # its settings, except batches and epochs
        families.refine(config, arg, own_representation=False, label_scale=1.0)
        config.objective.reduction = "sum"
        config.optimizer["parts"]["bert"] = tuned

r"""Gated relation network (Chen et al., AAAI 2019).

    python train.py --config configs/grn.py                       # the embedded sample
    python train.py --config configs/grn.py:conll2003 --workdir runs/grn

Published: entity F1 91.44 ± .16 on CoNLL-2003 test and 87.67 ± .17 on OntoNotes 5 test,
mean of 5 runs, best dev epoch of 200, with GloVe 6B vectors of 100 dimensions.

As in the authors' code, the loss of a batch is the mean over its sentences (eq. 11 has
the sum), and each batch of ten is a random draw from the whole corpus.

Options (after the colon): the data set (bare, first: sample, conll2003, wnut17,
ontonotes5, or files for a folder of your own, --config.data.dir), and the paper's
ablations, with their F1 on CoNLL-2003 / OntoNotes 5:

    context=none              relations of the embeddings themselves   88.36 / 82.21
    context=branch3           one convolution, of width 3              90.88 / 86.66
    relation=none             the context layer alone                  90.13 / 85.87
    relation=fusion           DFN, eq. 5                               90.72 / 85.81
    relation=attention        GAttN, eq. 7                             87.11 / 79.83

and

    elmo                      GRN*: with additional ELMo vectors           92.34 ± .10

which needs precomputed files, one for each split (`elmo/train.hdf5`, … in the data
folder, or --config.data.contextual=…/{split}.hdf5; also .npz or .safetensors). The
paper does not say which layer it uses; we use a learned mix.
"""

from jaxner import configuration, families


@configuration.options(context="all", relation="gated", elmo=False)
def get_config(config, arg):
    """Sets the options; the module docstring describes `arg`."""
    configuration.known("context", arg.context, ("all", "branch3", "none"))
    configuration.known(
        "relation", arg.relation, ("gated", "attention", "fusion", "none")
    )
    families.chen(config)
    if arg.elmo:
        config.data.contextual = "elmo/{split}.hdf5"
        config.model.representation.vectors = {"layer": "mix"}
    config.model.encoder = {
        "name": "grn",
        "hidden_dim": 400,
        "context": arg.context,
        "relation": arg.relation,
    }
    config.model.head = {"name": "crf", "dropout": 0.5}

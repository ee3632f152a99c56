r"""Gated relation network (Chen et al., AAAI 2019).

    jaxner train grn                              # the embedded sample
    jaxner train grn:conll2003 -o runs/grn

Published: entity F1 91.44 ± .16 on CoNLL-2003 test and 87.67 ± .17 on OntoNotes 5 test,
best dev epoch of 200, GloVe 6B vectors. About an hour for CoNLL-2003 on a CPU.

As in the authors' code, the loss of a batch is the mean over its sentences (eq. 11 has
the sum), and each batch of ten is a random draw from the whole corpus.

After the colon: the data set, and

    context=none              relations of the embeddings themselves
    context=branch3           one convolution, of width 3
    relation=none             the context layer alone
    relation=fusion           DFN, eq. 5
    relation=attention        GAttN, eq. 7
    elmo                      GRN*, with ELMo vectors of each token

`elmo` needs precomputed files, one for each split (`elmo/train.npz`, … in the data
folder, or --config.data.contextual=…/{split}.npz; also .safetensors). The paper does
not say which layer it uses; we use a learned mix.
"""

from jaxner import configuration, families


@configuration.options(
    context=("all", "branch3", "none"),
    relation=("gated", "attention", "fusion", "none"),
    elmo=False,
)
def get_config(config, arg):
    families.chen(config)
    if arg.elmo:
        config.data.contextual = "elmo/{split}.npz"
        config.model.representation.vectors = {"layer": "mix"}
    layers = {"context": arg.context, "relation": arg.relation}
    config.model.encoder = {"name": "grn", "hidden_dim": 400, **layers}
    config.model.head = {"name": "crf", "dropout": 0.5}

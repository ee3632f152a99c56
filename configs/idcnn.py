"""Iterated dilated convolutions (Strubell et al., EMNLP 2017), greedy and CRF.

    jaxner train idcnn                            # the embedded sample
    jaxner train idcnn:conll2003,crf
    jaxner train idcnn:conll2003,document --config.init_from=runs/idcnn-conll2003

Published: entity F1 on CoNLL-2003 test 90.32 ± .26 (greedy), 90.54 ± .18 (CRF) and, on
whole documents, 90.65 ± .15; best dev epoch of 100, Lample et al.'s (2016) vectors.
Under an hour on a CPU.

As in the authors' code, a word has a learned vector for its shape (one of four), which
the paper does not mention; the sentence model of CoNLL-2003 has one block; the document
model starts from a trained sentence model (`init_from`) and sums the losses of its
blocks (eq. 11 has the mean: --config.objective.stages=mean). Look-up is case-sensitive,
and Adam adds ε before the bias correction, as in TensorFlow.

Where the authors give no settings, documents with cnn4, cnn5, noshare or loss=last use
those of `document`, and other numbers of blocks on OntoNotes 5 those of theirs. Batches
are random draws from the whole corpus, not from neighbours in the file; the bound of
drawn word vectors, √(6/(V+D)), counts only words of the training text; the loss covers
only tokens, where theirs also trains the padding.

After the colon: the data set, and

    crf               CRF instead of independent labels
    document          documents of sentences with separators, 3 blocks (OntoNotes: 4)
    block=cnn4        4-layer CNN: dilations 1, 1, 1
    block=cnn5        5-layer CNN: dilations 1, 1, 1, 1
    blocks=N          number of applications of the block, if not the paper's
    noshare           separate weights and head for each block; a sentence model then
                      provides only the first layer
    loss=last         "1-loss": train only the last block on the labels
    dr=false          without the dropout regulariser
"""

from jaxner import configuration, families

DILATIONS = {"idcnn": (1, 2, 1), "cnn4": (1, 1, 1), "cnn5": (1, 1, 1, 1)}
# Those of the authors' configuration files, by data set and variant.
SETTINGS = families.table(
    """
    of              rate  b2     eps   inputs features words batch  clip  penalty blocks
    conll-idcnn     5e-4  0.9    1e-6  0.35   0.15     0.15  128    5.0   1e-4    1
    conll-cnn4      5e-4  0.9    1e-8  0.15   0.35     0.35  128    None  1e-4    1
    conll-cnn5      5e-4  0.9    1e-6  0.15   0.0      0.25  128    None  1e-4    1
    conll-document  1e-3  0.999  1e-4  0.25   0.25     0.25  32     None  1e-4    3
    onto-greedy     1e-4  0.99   1e-6  0.35   0.75     0.15  64     None  1e-6    3
    onto-crf        1e-4  0.999  1e-6  0.35   0.75     0.15  32     None  1e-6    1
    onto-document   5e-4  0.99   1e-8  0.25   0.5      0.25  32     None  1e-6    4
    """
)


@configuration.options(
    crf=False,
    document=False,
    block=tuple(DILATIONS),
    blocks=0,
    noshare=False,
    loss=("", "last", "mean", "sum"),
    dr=True,
)
def get_config(config, arg):
    family = "onto" if arg.dataset == "ontonotes5" else "conll"
    if arg.document:
        variant = "document"
    elif family == "onto":
        variant = "crf" if arg.crf else "greedy"
    else:
        variant = arg.block  # for greedy and CRF
    settings = SETTINGS[f"{family}-{variant}"]
    families.strubell(config, arg, settings)
    config.model.encoder = {
        "name": "idcnn",
        # The authors' OntoNotes CRF is wider than in the paper.
        "hidden_dim": 400 if family == "onto" and arg.crf else 300,
        "dilations": DILATIONS[arg.block],
        "num_blocks": arg.blocks or settings.blocks,
        "share": not arg.noshare,
    }
    config.model.head.per_stage = arg.noshare
    config.objective.stages = arg.loss or ("sum" if arg.document else "last")

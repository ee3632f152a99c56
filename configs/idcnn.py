r"""Iterated dilated convolutions (Strubell et al., EMNLP 2017), greedy and CRF.

    python train.py --config configs/idcnn.py                    # the embedded sample
    python train.py --config configs/idcnn.py:conll2003,crf
    python train.py --config configs/idcnn.py:conll2003,document \
        --config.init_from=runs/idcnn-conll2003

Published: entity F1 on CoNLL-2003 test 90.32 ± .26 (greedy), 90.54 ± .18 (CRF) and, on
whole documents, 90.65 ± .15; on OntoNotes 5 test 85.27 ± .24 (3 blocks), 86.84 ± .19
(CRF, 1 block) and 85.76 ± .13 (documents). Means of 10 runs of 100 epochs, best dev
epoch, with Lample et al.'s (2016) vectors of 100 dimensions.

As in the authors' code, a word has a learned vector for its shape (one of four), which
the paper does not mention; the sentence model of CoNLL-2003 has one block; the document
model starts from a trained sentence model (`init_from`) and sums the losses of its
blocks (eq. 11 has the mean: --config.objective.stages=mean).

Look-up is case-sensitive: a word without its own entry is unknown. Adam adds ε before
the bias correction, as in TensorFlow, which could matter at 1e-6 and 1e-4. Neither
counts for much (an eighth of CoNLL-2003, 60 epochs, one seed, dev/test F1): 88.56/85.28
as configured, 88.29/84.96 with lower-case entries as a fallback
(--config.data.lowercase_fallback=True), 88.48/85.09 with ε after the correction
(--config.optimizer.name=adam).

Some variants have no settings by the authors, so they borrow others': the greedy ID-CNN
of one block on OntoNotes 5 those of three blocks; documents with cnn4, cnn5, noshare or
loss=last those of `document`; three blocks on documents of OntoNotes 5, the paper's
number, those of the authors' file for four.

Differences: each batch is a random draw from the whole corpus. The authors' program
cuts the file into batch-sized runs of neighbours, pools runs with equally long longest
sentences, and draws a batch from one pool: often neighbours, of any length. In the
authors' draw of word vectors from U(±√(6/(V+D))), V includes the words of the vector
file; ours counts only those of the training text. Our loss covers only tokens; theirs
also trains the padding before and after a sentence.

Options (after the colon): the data set (bare, first: sample, conll2003, wnut17,
ontonotes5, or files for a folder of your own, --config.data.dir), and

    crf               CRF instead of independent labels
    document          documents of sentences with separators, 3 blocks (OntoNotes: 4)
    block=cnn4        4-layer CNN: dilations 1, 1, 1
    block=cnn5        5-layer CNN: dilations 1, 1, 1, 1
    blocks=N          number of applications of the block, if not the paper's
    noshare           separate weights and head for each block; a sentence model then
                      provides only the first layer
    loss=last         "1-loss": train only the last block on the labels
    dr=false          without the dropout regulariser

Published F1 on CoNLL-2003 test of each:

    block=cnn4  89.97        block=cnn4,dr=false   89.74    document,block=cnn4  90.32
    block=cnn5  90.23        block=cnn5,dr=false   89.93    document,block=cnn5  90.45
    crf         90.54        dr=false              89.65    document,noshare     89.81
    document    90.65                                       document,loss=last   90.06
"""

from jaxner import configuration, families

BLOCKS = {"idcnn": (1, 2, 1), "cnn4": (1, 1, 1), "cnn5": (1, 1, 1, 1)}
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
    crf=False, document=False, block="idcnn", blocks=0, noshare=False, loss="", dr=True
)
def get_config(config, arg):
    """Sets the options; the module docstring describes `arg`."""
    configuration.known("block", arg.block, BLOCKS)
    configuration.known("loss", arg.loss, ("", "last", "mean", "sum"))
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
        "dilations": BLOCKS[arg.block],
        "num_blocks": arg.blocks or settings.blocks,
        "share": not arg.noshare,
    }
    config.model.head.per_stage = arg.noshare
    config.objective.stages = arg.loss or ("sum" if arg.document else "last")

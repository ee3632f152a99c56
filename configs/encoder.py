r"""A pretrained encoder under a CRF: fine-tuned on your data, or frozen.

    jaxner train encoder --config.data.pretrained=FOLDER
    jaxner train encoder:conll2003,model=uanet …

`data.pretrained` is a local folder as Hugging Face's save_pretrained writes it, of
BERT, MiniLM, DistilBERT, ELECTRA, RoBERTa, XLM-R, CamemBERT, MPNet, DeBERTa-v3 or
ModernBERT. Tagging needs it no more. Long sentences are read in windows that
overlap.

The encoder has its own options, `optimizer.parts.bert`: its learning rate;
`layer_decay`, by which each layer learns more slowly than the one above; and
`frozen_layers`, the lowest layers, which keep their weights, as do the piece vectors.
Sentences of similar length make up a batch (`pool`), so that little is padding; more
blocks (`num_blocks`) need less memory.

After the colon: the data set, and

    model=crf        a CRF (the default)
    model=softmax    a linear layer
    model=uanet      draft and refinement (see `configs/bert.py`)
    pool=mean        a token is the mean of its pieces, not the first of them
"""

from jaxner import configuration, families


@configuration.options(model=("crf", "softmax", "uanet"), pool=("first", "mean"))
def get_config(config, arg):
    families.tune(config, arg, learning_rate=5e-5)
    config.patience = 3
    config.batch_size = 32
    config.pool = 32
    config.num_blocks = 1
    config.data.num_shapes = 4 if arg.dataset == "sample" else 10

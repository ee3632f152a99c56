r"""BERT-Softmax, BERT-CRF and BERT-UANet (the last rows of Gui et al.'s, 2020, tables).

    jaxner train bert --config.data.pretrained=FOLDER
    jaxner train bert:conll2003,model=uanet …

Published: entity F1 on CoNLL-2003 test 91.62, 91.71 and 92.02.

`data.pretrained` is a local folder in Hugging Face's layout: config.json,
model.safetensors and vocab.txt; tagging needs it no more. Sentences too long
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
    families.tune(config, arg)

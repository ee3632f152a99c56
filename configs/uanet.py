r"""UANet: uncertainty-aware label refinement (Gui et al., EMNLP 2020), and ablations.

    jaxner train uanet                            # the embedded sample
    jaxner train uanet:conll2003
    jaxner train uanet:conll2003,model=transformer,crf

Published: entity F1 on CoNLL-2003 test 91.60, on OntoNotes 5 88.39; tagging accuracy on
WSJ 97.62 (the paper does not give the number of runs). Two hours on a CPU.

A variational LSTM drafts labels in M = 8 passes with dropout. A two-stream Transformer
labels the sentence again from the words and the draft; its label replaces the draft's
where the entropy of the draft is above Γ. Both train together: SGD for the draft, AdamW
with warm-up for the refinement, gradients clipped jointly (metrics.jsonl has both
norms; --config.optimizer.clip=parts clips them separately, which is not in the paper).
Losses are sums over a batch of ten sentences. Where paper and authors' code differ, the
values are the code's with the flags of its README (Γ .45, 7 heads of 160). Choose Γ and
M after training, with `python -m reproduce figures sweep`.

Differences from the code: the vocabulary, and the deviation by which vectors are
divided, come from training, not from dev and test; there is no class for padding and no
sentence from -DOCSTART- lines; no sentence is skipped for its length; all attention
layers are drawn independently; biases start at 0; the two directions of the LSTM have
their own input masks (rate .01); conlleval chooses the best epoch, while figures are by
the code's scorer (rule `ncrfpp`).

After the colon: the data set, and

    model=uanet           draft and refinement (the default)
    model=variational     the draft alone: Variational LSTM
    model=transformer     the refinement's words alone
    crf                   the draft's labels depend on each other
    labels=false          a refinement without the draft's labels
    draft=grn             another encoder drafts: grn or idcnn (not in the paper)
    chars=intnet          IntNet's character features
    form=paper            where the code differs: recurrent dropout (eq. 3), labels by
                          mean probabilities (eq. 4), the vector of the most probable
                          draft label (eq. 7), layers as in eq. 8, Γ = .35
"""

from jaxner import configuration, families
from jaxner.errors import InputError


@configuration.options(
    model=("uanet", "variational", "transformer"),
    crf=False,
    labels=True,
    draft=("", "bilstm", "grn", "idcnn"),
    form=("code", "paper"),
)
def get_config(config, arg):
    arg.encoder = arg.encoder or arg.draft
    if arg.model != "uanet" and not (arg.labels and arg.form == "code"):
        raise InputError(f"labels and form are options of model=uanet, not {arg.model}")
    if arg.model == "transformer" and arg.encoder:
        raise InputError("model=transformer has no draft: remove draft=")
    families.gui(config)
    config.data.standardise_vectors = arg.dataset != "sample"
    if arg.model == "transformer":
        config.model.encoder = {"name": "transformer", **families.transformer(config)}
        config.model.head = families.torch_head(arg.crf, dropout=0.15)
        rate = 1e-3 if arg.dataset == "sample" else 1e-4
        config.optimizer = families.warm_adamw(learning_rate=rate, clip_norm=5.0)
        return
    is_paper = arg.form == "paper"
    refinement = {
        "threshold": 0.35 if is_paper else 0.45,
        "labels": arg.labels,
        "soft": not is_paper,
        "form": arg.form,
    }
    if arg.model == "variational":
        refinement = {}
    config.model.head = families.torch_head(arg.crf, dropout=0.0)
    rate = 0.2 if arg.dataset == "wsj" else 0.015
    families.refine(config, arg, rate, **refinement)
    if is_paper:
        config.model.encoder.update({"state_dropout": 0.25, "output_dropout": 0.0})
    config.model.mc_dropout.average = "probabilities" if is_paper else "scores"
    if arg.dataset != "sample":
        return
    # Faster learning, for 2,000 steps instead of 150,000: with label vectors from
    # U(±600), the joint clip leaves almost no step for the draft.
    config.optimizer.learning_rate = 0.03
    if refinement:
        config.model.refinement.label_scale = 1.0
        config.optimizer.parts.refinement.learning_rate = 1e-3

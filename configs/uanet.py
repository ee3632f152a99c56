r"""UANet: uncertainty-aware label refinement (Gui et al., EMNLP 2020), and ablations.

    python train.py --config configs/uanet.py                    # the embedded sample
    python train.py --config configs/uanet.py:conll2003
    python train.py --config configs/uanet.py:conll2003,model=transformer,crf

Published: entity F1 on CoNLL-2003 test 91.60, on OntoNotes 5 88.39; tagging accuracy on
WSJ 97.62 (the number of runs is not stated).

A variational LSTM drafts labels in M = 8 passes with dropout; a two-stream Transformer
labels the sentence once more from its words and the draft; its label is taken where the
entropy of the draft is above Γ. Both are trained together: SGD for the draft, AdamW
with warm-up for the refinement, gradients clipped together (their norms before that are
in metrics.jsonl, `gradient_norm_refinement` and `gradient_norm_rest`). The scores are
the sums over a batch of ten sentences. Where paper and authors' code differ, the values
are the code's with the flags of its README (Γ .45, 7 heads of 160), which gave the
figures.

What differs from the code: words are known from training and the vector file, not from
dev and test (so vectors are divided by the standard deviation of the training words',
drawn ones included); there is no class for padding, no padding in the characters'
maximum, and no line -DOCSTART- as a sentence; nothing is left out for its length; all
attention layers are drawn by themselves; scores are conlleval's, not those of the
code's scorer.

With label vectors from U(±600), as in the code, the refinement has 83 to 99.9 % of the
joint clip at the start, so that the draft learns slowly: 20 epochs show nothing of what
100 give. --config.optimizer.clip=parts clips the two by themselves (not in the paper;
not measured yet).

Γ and M are chosen when the tagger is used, without training: `jaxner sweep`.

Options (after the colon): the data set (bare, first: sample, conll2003, wnut17,
ontonotes5, ud_ewt, wsj, or files for a folder of your own, --config.data.dir), and

    model=uanet           draft and refinement (the default)
    model=variational     the draft alone: Variational LSTM        90.83; crf 91.20
    model=transformer     the refinement's words alone             90.70; crf 91.22
    crf                   the draft's labels depend on each other
    labels=false          the refinement does not read the draft             91.23
    draft=grn             another encoder drafts: grn or idcnn (not in the paper)
    chars=intnet          IntNet's character features                        91.80
    form=paper            the letter of the paper, where the code differs: recurrent
                          dropout (eq. 3), labels by mean probabilities (eq. 4), the
                          likeliest draft label's vector (eq. 7), layers as in eq. 8,
                          Γ = .35
"""

from jaxner.configuration import arguments, gui, system

MODELS = ("uanet", "variational", "transformer")
DRAFTS = ("", "bilstm", "grn", "idcnn")


@system.options(model="uanet", crf=False, labels=True, draft="", form="code")
def get_config(config, arg):
    """Sets the options; the module docstring describes `arg`."""
    arguments.known("model", arg.model, MODELS)
    arguments.known("draft", arg.draft, DRAFTS)
    arguments.known("form", arg.form, ("code", "paper"))
    arg.encoder = arg.encoder or arg.draft
    if arg.model != "uanet" and not (arg.labels and arg.form == "code"):
        raise ValueError(f"labels and form are options of model=uanet, not {arg.model}")
    if arg.model == "transformer" and arg.encoder:
        raise ValueError("model=transformer drafts nothing: leave draft out")
    gui.settings(config)
    config.data.standardise_vectors = arg.dataset != "sample"
    if arg.model == "transformer":
        config.model.encoder = {"name": "transformer", **gui.transformer(config)}
        config.model.head = gui.head(arg.crf, dropout=0.15)
        config.optimizer = gui.adamw(clip_norm=5.0)
        return
    is_paper = arg.form == "paper"
    config.model.encoder = gui.variational_lstm()
    if is_paper:
        config.model.encoder.update({"state_dropout": 0.25, "output_dropout": 0.0})
    config.model.head = gui.head(arg.crf, dropout=0.0)
    config.model.mc_dropout = {
        "num_samples": 8,
        "parts": ("encoder",),
        "average": "probabilities" if is_paper else "scores",
    }
    config.optimizer = gui.sgd(learning_rate=0.2 if arg.dataset == "wsj" else 0.015)
    if arg.model == "uanet":
        _refine(config, arg, is_paper)
    if arg.dataset == "sample":
        _shorten(config)


def _refine(config, arg, is_paper):
    config.model.refinement = {
        "threshold": 0.35 if is_paper else 0.45,
        "labels": arg.labels,
        "soft": not is_paper,
        "form": arg.form,
        "head": gui.head(crf=False, dropout=0.15),
        **gui.transformer(config),
    }
    config.objective.stages = "sum"
    config.optimizer.parts = {"refinement": gui.adamw()}


def _shorten(config):
    """Learns faster, for 2,000 steps in the place of 150,000.

    The gradient of label vectors from U(±600) is a hundred times that of the draft, so
    that the joint clip leaves the draft almost no step: it takes the paper's 100 epochs
    of a large corpus to come off its first labels.
    """
    config.optimizer.learning_rate = 0.03
    if "refinement" in config.model:
        config.model.refinement.label_scale = 1.0
        config.optimizer.parts.refinement.learning_rate = 1e-3

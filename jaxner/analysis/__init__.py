"""The papers' own experiments on a trained tagger.

sweeps     the threshold Γ and the number of passes M (UANet, Figure 4)
drafts     draft, refined label and uncertainty of each token (UANet, Tables 1 and 7)
lengths    F1 by the length of sentences (UANet, Figure 3) and of mentions (Li et al.)
parts      chunk recall with parts of the attention zeroed (Li et al.)
heatmaps   relations (GRN, Figure 4) and attention weights (Li et al.)

These are functions of taggers and labels; `python -m reproduce figures` turns their
results into tables and plots.
"""

"""The papers' own experiments on a trained tagger, and its report.

refinement  Γ, M, drafts and changed tokens (UANet, Figure 4, Tables 1 and 7)
inside      relations (GRN, Figure 4), attention, and its parts alone (Li et al.)
describe    scores, the report of runs, and labels that a tagger considers improbable
"""

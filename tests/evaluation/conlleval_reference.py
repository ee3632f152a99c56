"""An independent reading of conlleval, the scorer of the CoNLL shared tasks.

It walks over the tokens of all sentences once, as the Perl program does, and knows only
whether a chunk starts or ends between two neighbours: no spans are formed. Its counting
of correct chunks therefore shares nothing with `jaxner.evaluation.scoring`.
"""

from collections import Counter

# Prefixes before and here, of one and the same type, between which a chunk starts, or
# ends; a change of type does both. These are the pairs of the Perl program.
STARTS = {"BB", "IB", "OB", "OI", "EE", "EI", "OE"}
ENDS = {"BB", "BO", "IB", "IO", "EE", "EI", "EO"}
# What BIOES needs beyond them: that program lets E-B pass as no break and has no S.
STARTS_BIOES = STARTS | {"EB", *(f"{p}S" for p in "BIESO"), *(f"S{p}" for p in "BIE")}
ENDS_BIOES = ENDS | {"EB", *(f"{p}S" for p in "BIE"), *(f"S{p}" for p in "BIESO")}


def conlleval(gold, predicted, *, bioes=False):
    """Counts (correct, predicted, gold) chunks per type; `bioes` adds its prefixes."""
    starts, ends = (STARTS_BIOES, ENDS_BIOES) if bioes else (STARTS, ENDS)
    correct, guessed, right = Counter(), Counter(), Counter()
    inside_correct = None  # type of the chunk in which both have agreed so far
    before_gold = before_guess = ("O", "")
    for gold_label, guess_label in _stream(gold, predicted):
        gold_here, guess_here = _split(gold_label), _split(guess_label)
        gold_ends = _breaks(before_gold, gold_here, ends, of=before_gold)
        guess_ends = _breaks(before_guess, guess_here, ends, of=before_guess)
        if inside_correct is not None:
            if gold_ends and guess_ends:
                correct[inside_correct] += 1
                inside_correct = None
            elif gold_ends != guess_ends or gold_here[1] != guess_here[1]:
                inside_correct = None
        gold_starts = _breaks(before_gold, gold_here, starts, of=gold_here)
        guess_starts = _breaks(before_guess, guess_here, starts, of=guess_here)
        if gold_starts and guess_starts and gold_here[1] == guess_here[1]:
            inside_correct = gold_here[1]
        right[gold_here[1]] += gold_starts
        guessed[guess_here[1]] += guess_starts
        before_gold, before_guess = gold_here, guess_here
    kinds = {kind for kind in right | guessed if right[kind] or guessed[kind]}
    return {kind: (correct[kind], guessed[kind], right[kind]) for kind in kinds}


def _stream(gold, predicted):
    for right, labels in zip(gold, predicted, strict=True):
        yield from zip(right, labels, strict=True)
        yield "O", "O"  # the blank line after a sentence


def _split(label):
    prefix, _, kind = label.partition("-")
    return prefix, kind


def _breaks(before, here, pairs, *, of):
    """Tells whether the chunk `of` one of the two neighbours starts or ends here."""
    if of[0] == "O":
        return False
    return before[0] + here[0] in pairs or before[1] != here[1]

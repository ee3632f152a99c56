"""What a tagger says of a text beyond its labels.

entity           entities of strings, with offsets and probabilities
entity_arrays    the same of encoded sentences, as arrays under `jit`
probabilities    of labels and of whole labellings; the n best
dropout_passes   uncertainty by Monte Carlo dropout
calibrating      the temperature at which probabilities are honest
mapping          a function of one sentence over whatever a caller calls tokens
"""

"""A tagger's answers beyond labels: entities, probabilities, uncertainty.

entity           entities of a text, with offsets and probabilities
entity_arrays    entities of encoded sentences, as arrays under `jit`
probabilities    probabilities of labels and of whole labellings; the n best
dropout_passes   uncertainty by Monte Carlo dropout
calibrating      the temperature that calibrates probabilities
mapping          a function of one sentence, mapped over tokens of any form
"""

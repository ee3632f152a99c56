"""The embedded corpus: English news-like text with CoNLL-2003's four entity types.

Every sentence was written for this project. The three files beside this module are in
CoNLL-2003's four columns (word, part of speech, chunk, entity) with BIO labels.
"""

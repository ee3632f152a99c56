"""A model for services, which processes of tests import in a second."""

import time
import types

import numpy as np

from jaxner.answers.mentions import EntityArrays
from jaxner.data.schemes import label_types
from jaxner.serving.programs import Job, Programs


class Slow(Programs):
    """A model that says what it got, and takes its time."""

    labels, has_chances, reads_documents, budget = ("O",), True, False, 2
    types, tokenizer = label_types(("B-PER",)), None

    def __init__(self, seconds=0.05):
        self.seconds, self.batches, self.counts = seconds, [], {"batches": 0}

    def compile(self, log):
        time.sleep(self.seconds)

    def job(self, sentences, is_deep=False):
        words = types.SimpleNamespace(words=sentences[0])
        return Job(words, len(sentences[0]), is_deep)

    def __call__(self, jobs):
        self.batches.append([job.sentence.words for job in jobs])
        time.sleep(self.seconds)
        if any("crash" in job.sentence.words for job in jobs):
            raise RuntimeError(str(jobs))
        return [len(job.sentence.words) for job in jobs]

    def cut(self, count, sentences):
        ids = np.zeros(count, int)
        yield {"best": EntityArrays(ids, ids, *[None] * 4)}

"""Scores a trained tagger: `jaxner evaluate`, in a clone.

python evaluate.py --workdir runs/grn
"""

from jaxner.training import signals

if __name__ == "__main__":
    signals.watch()  # before the rest is imported, which takes seconds

from jaxner.commands.evaluate import evaluate as evaluate
from jaxner.commands.evaluate import main

if __name__ == "__main__":
    main()

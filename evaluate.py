"""Scores a trained tagger: `jaxner evaluate`, in a clone.

python evaluate.py --workdir runs/grn
"""

if __name__ == "__main__":
    from jaxner.commands import interrupts

    interrupts.restore()  # first: the other imports take seconds

from jaxner.commands.evaluate import evaluate as evaluate
from jaxner.commands.evaluate import main

if __name__ == "__main__":
    main()

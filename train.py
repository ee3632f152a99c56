r"""Trains a tagger: `jaxner train`, in a clone.

python train.py --config configs/grn.py
python train.py --config configs/grn.py:conll2003 --config.num_epochs=50
"""

if __name__ == "__main__":
    from jaxner.commands import interrupts

    interrupts.restore()  # first: the other imports take seconds

from jaxner.commands.train import main
from jaxner.training.seeds import main_run as main_run

if __name__ == "__main__":
    main()

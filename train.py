r"""Trains a tagger: `jaxner train CONFIG`, in a clone.

python train.py --config configs/grn.py
python train.py --config configs/grn.py:conll2003 --config.num_epochs=50
"""

if __name__ == "__main__":
    from jaxner.__main__ import main

    main(command="train")
else:
    from jaxner.training.train import main_run as main_run

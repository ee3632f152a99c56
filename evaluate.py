"""Scores a run on its test split: `jaxner evaluate RUN --split test`, in a clone.

python evaluate.py --workdir runs/grn
"""

from jaxner.__main__ import main

if __name__ == "__main__":
    main(command="evaluate")

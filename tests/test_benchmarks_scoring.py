"""The benchmark of scorers: both score the same labels."""

import json

from benchmarks import scoring


def test_both_find_the_same_f1(tmp_path):
    path = tmp_path / "found.json"
    scoring.main(["--quick", "--json", str(path)])
    (rows,) = (x for x in json.loads(path.read_text()).values() if isinstance(x, list))
    assert [row["rule"] for row in rows] == ["conlleval", "strict", "idcnn", "ncrfpp"]
    assert all(row["same F1"] for row in rows)
    assert rows[0]["jaxner"]["ratio"]["median"] > 1
    assert rows[0]["tokens"] >= scoring.QUICK_TOKENS

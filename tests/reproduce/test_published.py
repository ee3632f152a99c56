"""The file of published figures: complete, consistent, and copied right."""

import re

import pytest

from jaxner.data import corpora
from jaxner.reproduce import programs, published, tables

KNOWN = published.load()
CELLS = KNOWN.cells

# Copied from the papers' tables a second time. Strubell et al.: Tables 1 to 7.
PUBLISHED = {
    "bert": {
        "conll2003": "91.62",
        "conll2003,model=crf": "91.71",
        "conll2003,model=uanet": "92.02",
    },
    "ncrfpp": {
        "conll2003": "90.77",
        "conll2003,crf": "91.21",
        "conll2003,chars=intnet": "91.43",
        "conll2003,chars=intnet,crf": "91.64",
        "ontonotes5": "83.76",
        "ontonotes5,crf": "86.99",
        "wsj": "97.51",
        "wsj,crf": "97.51",
    },
    "lan": {
        "conll2003": "90.77",
        "ontonotes5": "88.16",
        "wsj": "97.58",
    },
    "seq2seq": {"conll2003": "91.22", "wsj": "97.59"},
    "uanet": {
        "conll2003": "91.60",
        "conll2003,labels=false": "91.23",
        "conll2003,model=transformer": "90.70",
        "conll2003,model=transformer,crf": "91.22",
        "conll2003,model=variational": "90.83",
        "conll2003,model=variational,crf": "91.20",
        "conll2003,chars=intnet": "91.80",
        "conll2003,draft=grn": "",
        "ontonotes5": "88.39",
        "ontonotes5,labels=false": "87.84",
        "ontonotes5,model=transformer": "87.45",
        "ontonotes5,model=transformer,crf": "87.77",
        "ontonotes5,model=variational": "87.11",
        "ontonotes5,model=variational,crf": "87.63",
        "wsj": "97.62",
        "wsj,labels=false": "97.57",
        "wsj,model=transformer": "97.49",
        "wsj,model=transformer,crf": "97.56",
        "wsj,model=variational": "97.46",
        "wsj,model=variational,crf": "97.55",
    },
    "bilstm": {
        "conll2003": "89.34 ± .28",
        "conll2003,crf": "90.43 ± .12",
        "conll2003,dr=false": "88.89 ± .30",
        "conll2003,crf,dr=false": "90.01 ± .23",
        "conll2003,document": "89.09 ± .19",
        "conll2003,document,crf": "90.60 ± .19",
        "ontonotes5": "83.76 ± .10",
        "ontonotes5,crf": "86.99 ± .22",
        "ontonotes5,document,crf": "86.81 ± .18",
    },
    "idcnn": {
        "conll2003": "90.32 ± .26",
        "conll2003,crf": "90.54 ± .18",
        "conll2003,block=cnn4": "89.97 ± .20",
        "conll2003,block=cnn5": "90.23 ± .16",
        "conll2003,dr=false": "89.65 ± .30",
        "conll2003,block=cnn4,dr=false": "89.74 ± .23",
        "conll2003,block=cnn5,dr=false": "89.93 ± .32",
        "conll2003,document": "90.65 ± .15",
        "conll2003,document,block=cnn4": "90.32 ± .32",
        "conll2003,document,block=cnn5": "90.45 ± .21",
        "conll2003,document,noshare": "89.81 ± .19",
        "conll2003,document,loss=last": "90.06 ± .19",
        "ontonotes5": "85.27 ± .24",
        "ontonotes5,blocks=1": "84.28 ± .10",
        "ontonotes5,crf": "86.84 ± .19",
        "ontonotes5,document,blocks=3": "85.76 ± .13",
    },
    "grn": {
        "conll2003,elmo": "92.34 ± .10",
        "conll2003": "91.44 ± .16",
        "conll2003,context=none": "88.36 ± .21",
        "conll2003,context=branch3": "90.88 ± .22",
        "conll2003,relation=none": "90.13 ± .28",
        "conll2003,relation=fusion": "90.72 ± .06",
        "conll2003,relation=attention": "87.11 ± .25",
        "ontonotes5": "87.67 ± .17",
        "ontonotes5,context=none": "82.21 ± .23",
        "ontonotes5,context=branch3": "86.66 ± .21",
        "ontonotes5,relation=none": "85.87 ± .16",
        "ontonotes5,relation=fusion": "85.81 ± .14",
        "ontonotes5,relation=attention": "79.83 ± .37",
    },
    "cnn_bilstm_crf": {
        "conll2003": "91.17 ± .18",
        "conll2003,attention": "90.24 ± .15",
        "ontonotes5,attention": "87.25 ± .17",
    },
    "parallel_rnn": {
        "conll2003": "91.48 ± .22",
        "conll2003,chars=false": "90.39",
        "conll2003,orthogonal=false": "90.79",
        "conll2003,init=normal": "91.09",
        "conll2003,dropout=false": "91.03",
        "conll2003,pool=mean": "90.49",
        "conll2003,units=1,size=64": "90.53 ± .31",
        "conll2003,units=2,size=64": "90.79 ± .18",
        "conll2003,units=4,size=64": "90.64 ± .24",
        "conll2003,units=8,size=64": "91.09 ± .28",
        "conll2003,units=32,size=64": "90.68 ± .18",
        "conll2003,units=1,size=1024": "87.54",
        "conll2003,units=2,size=512": "91.25",
        "conll2003,units=4,size=256": "91.29",
        "conll2003,units=8,size=128": "91.31",
        "conll2003,units=32,size=32": "90.60",
        "conll2003,units=64,size=16": "90.79",
        "conll2003,units=128,size=8": "90.41",
        "conll2003,units=16,size=8": "89.78",
        "conll2003,units=16,size=16": "89.77",
        "conll2003,units=16,size=32": "90.26",
        "conll2003,units=16,size=128": "89.28",
    },
    "cross_bilstm": {
        "wnut17": "",
        "wnut17,model=cross": "",
        "wnut17,model=baseline": "",
        "wnut17,model=direction": "",
        "ontonotes5": "≈ 88.4 (unverified)",
        "ontonotes5,model=cross": "≈ 88.4 (unverified)",
        "ontonotes5,model=baseline": "≈ 87.7 (unverified)",
    },
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_figures_are_those_of_the_papers(name):
    found = {}
    for cell in CELLS.values():
        module, arg = cell.config.split(":", 1)
        if module == name:
            # Without the number of runs, which the next test compares.
            found[arg] = re.sub(r" \(\d+\).*", "", tables.published_figure(cell))
    assert found == PUBLISHED[name]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("idcnn/conll2003", "90.32 ± .26 (10)"),
        ("parallel-rnn/conll2003", "91.48 ± .22 (10)"),
        ("parallel-rnn-1x64/conll2003", "90.53 ± .31 (5)"),
        ("grn/conll2003", "91.44 ± .16 (5), best 91.67"),
        ("cnn-bilstm-crf/conll2003", "91.17 ± .18 (5), best 91.45"),
        ("ncrfpp/conll2003", "90.77"),
    ],
)
def test_runs_are_those_of_the_papers(cell, text):
    assert tables.published_figure(KNOWN.cell(cell)) == text


def test_all_configs_have_their_cells():
    files = {p.stem for p in (programs.ROOT / "configs").glob("[!_]*.py")}
    assert files - {"common"} == set(PUBLISHED)
    assert len(CELLS) == sum(map(len, PUBLISHED.values())) == 106


@pytest.mark.parametrize("cell", CELLS.values(), ids=lambda cell: cell.id)
def test_a_cell_is_complete(cell):
    config = programs.config_of(cell)
    assert config.data.name == cell.dataset == cell.id.rpartition("/")[2]
    assert cell.dataset in corpora.CORPORA
    assert (cell.figure == "accuracy") == (config.data.scheme == "tags")
    assert cell.published is None or 70 < cell.published < 99
    assert cell.verified or cell.note
    assert cell.source or cell.note
    if cell.published is None:
        assert cell.note
    if cell.deviation is not None:
        assert 0 < cell.deviation < 1
        assert cell.runs
    if cell.published_max is not None:
        assert cell.published < cell.published_max
    if cell.begins_with:
        assert config.data.unit == "document"
        source = programs.config_of(KNOWN.cell(cell.begins_with))
        assert source.data.unit == "sentence"
        assert source.model.encoder.name == config.model.encoder.name
        assert source.model.head.name == config.model.head.name


def test_documents_begin_with_sentences():
    documents = {x.id for x in CELLS.values() if ",document" in x.config}
    assert {cell.id for cell in CELLS.values() if cell.begins_with} == documents


def test_configs_differ():
    assert len({cell.config for cell in CELLS.values()}) == len(CELLS)


def test_claims_are_the_orders_of_the_published_figures():
    pairs = [(claim.better, claim.worse) for claim in KNOWN.claims]
    assert len(set(pairs)) == len(pairs)
    for claim in KNOWN.claims:
        better, worse = KNOWN.cell(claim.better), KNOWN.cell(claim.worse)
        assert claim.table in KNOWN.papers
        assert better.figure == worse.figure
        assert better.dataset == worse.dataset
        if better.published and worse.published:
            assert better.published > worse.published, claim


def test_unknown_names_are_told_with_the_close_ones():
    with pytest.raises(ValueError, match=r"Unknown cell 'grn/conll'; .*grn/conll2003"):
        KNOWN.cell("grn/conll")
    with pytest.raises(ValueError, match="Unknown table 'grm'; known are grn"):
        KNOWN.of_table("grm")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"bilstm-crf/conll2003"', '"bilstm/conll2003"', "occurs twice"),
        ('table = "grn"', 'table = "gnr"', "Unknown table 'gnr'"),
        ("published = 91.44", "publisht = 91.44", "publisht"),
        ('rule = "idcnn"', 'rule = "iob"', "rule of f1 must be one of conlleval"),
        ('better = "grn/', 'better = "grm/', "Unknown cell 'grm/"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, old, new, message):
    text = published.FILE.read_text("utf-8")
    assert old in text
    (tmp_path / "wrong.toml").write_text(text.replace(old, new), "utf-8")
    with pytest.raises(ValueError, match=re.escape(message)):
        published.load(tmp_path / "wrong.toml")

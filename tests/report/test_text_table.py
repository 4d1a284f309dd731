import csv
import io

from ddsh.report.text_table import Note, TableCell, TextTable

TABLE = TextTable(
    ("method", "MAP"),
    (("a_b", TableCell("0.5 ± 0.1", is_best=True, notes=(Note("(0.4)"),))), ("_x|*y*", "0.25")),
    "lr",
)


def test_markdown_escapes_what_it_would_interpret():
    assert TABLE.to_markdown().splitlines() == [
        "| method | MAP |",
        "| --- | --- |",
        "| a_b | **0.5 ± 0.1** (0.4) |",
        r"| \_x\|\*y\* | 0.25 |",
    ]


def test_latex_is_a_booktabs_table():
    assert TABLE.to_latex().splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"method & MAP \\",
        r"\midrule",
        r"a\_b & \textbf{0.5 $\pm$ 0.1} \\",
        r"\_x|*y* & 0.25 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_csv_can_be_read_back():
    table = TextTable(("a", "b"), (('say "x"', "1,2"), ("two\nlines", "")))
    assert list(csv.reader(io.StringIO(table.to_csv()))) == [["a", "b"], ['say "x"', "1,2"], ["two\nlines", ""]]


def test_some_columns_can_be_selected():
    chosen = TABLE.select(["MAP"])
    assert (chosen.header, chosen.alignment) == (("MAP",), "r")
    assert [row[0].text for row in chosen.cells] == ["0.5 ± 0.1", "0.25"]

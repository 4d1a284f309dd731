"""Reports of results: a page, figures and tables; no model is run."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddsh.report.build import Report, read_folder, write_report
    from ddsh.report.charts import FIGURES, FORMATS
    from ddsh.report.score_tables import markdown_table
    from ddsh.report.text_table import TextTable
else:
    import lazy_loader

    __getattr__, __dir__, _ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "build": ["Report", "read_folder", "write_report"],
            "charts": ["FIGURES", "FORMATS"],
            "score_tables": ["markdown_table"],
            "text_table": ["TextTable"],
        },
    )

__all__ = ["FIGURES", "FORMATS", "Report", "TextTable", "markdown_table", "read_folder", "write_report"]

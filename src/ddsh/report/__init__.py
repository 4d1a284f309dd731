"""Reports: a page, figures and tables from results alone; nothing here runs a model."""

from ddsh.report.chart import FIGURES, FORMATS
from ddsh.report.markdown import markdown_table
from ddsh.report.writing import Report, read_folder, write_report

__all__ = ["FIGURES", "FORMATS", "Report", "markdown_table", "read_folder", "write_report"]

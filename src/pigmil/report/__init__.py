"""Figures, and HTML or Markdown reports rendered from one summary."""

from pigmil._core.text import Cell, Table
from pigmil.report._comparison import comparison_summary
from pigmil.report._figures import plot_bags, plot_heatmap, plot_trace
from pigmil.report._summary import detection_summary, retrieval_summary
from pigmil.report._tiles import write_geojson
from pigmil.report._write import render_html, render_markdown, write_report

__all__ = [
    "Cell",
    "Table",
    "comparison_summary",
    "detection_summary",
    "plot_bags",
    "plot_heatmap",
    "plot_trace",
    "render_html",
    "render_markdown",
    "retrieval_summary",
    "write_geojson",
    "write_report",
]

"""``pigmil retrieve``: bags that resemble a bag by the instances that make it positive."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pigmil._core.text import count, did_you_mean
from pigmil.cli import _console as console
from pigmil.cli import _inputs as inputs
from pigmil.cli._console import Output, command
from pigmil.cli._inputs import Result, output_option, result_option
from pigmil.cli._models import check_scores_instances, load_pipeline, with_fitted_features


@command
def retrieve(
    output: Output,
    model: inputs.ModelArgument,
    data: inputs.DataArgument,
    query: Annotated[list[str], result_option("--query")],
    k: Annotated[int, result_option("-k", min=1)] = 10,
    score_weight: Result[float] = 0.3,
    to: Annotated[Path | None, output_option(show_default="DATA-matches.html")] = None,
    images: Result[str | None] = None,
    read: inputs.ReadOptions = inputs.NO_OPTIONS,
) -> None:
    """Find the bags that resemble a bag by the instances that make it positive.

    Compares the best instance of the query with all instances of the other bags, and prefers
    those that the model scores high.

    Parameters
    ----------
    model : Path
        File of `pigmil fit`.
    data : str
        File of bags, folder of slides, or name of a data set.
    query : list of str
        Id of the bag to ask with; may be repeated.
    k : int
        Number of bags to return.
    score_weight : float
        Weight of the score of a match; 0 ranks by distance alone.
    to : Path
        Page with the matches: .html or .md.
    images : str
        Column with picture files to show on the page.

    Example:

      pigmil retrieve model.skops pictures.csv --query tiger_17 --images file
    """
    from pigmil.report import retrieval_summary, write_report
    from pigmil.retrieval import InstanceIndex

    to = to or Path(f"{Path(data).stem}-matches.html")
    console.check_targets(data, {"--output": (to, console.REPORTS)})
    pipeline, method = load_pipeline(model)
    check_scores_instances(method, "there is nothing to compare")
    if images is not None and inputs.is_table(data):
        read = replace(read, info=list(dict.fromkeys([*(read.info or []), images])))
    bags = with_fitted_features(
        output, method, inputs.open_bags(data, read, labelled=False, output=output)
    )
    ids = {str(bag): bag for bag in bags.ids.tolist()}
    for name in query:
        if name not in ids:
            raise ValueError(
                f"--query {name}: there is no such bag; ids are like '{next(iter(ids))}'."
                + did_you_mean(name, list(ids))
            )
    index = InstanceIndex(pipeline, score_weight=score_weight).fit(bags)
    summary = retrieval_summary(
        index, bags, [ids[name] for name in query], k=k, source=data,
        command=console.command_line(), images=images, image_folder=Path(data).parent,
    )  # fmt: skip
    found = [(asked["bag"], row) for asked in summary["queries"] for row in asked["rows"]]
    values = ("bag", "instance", "similarity", "distance", "score")
    matches = [{"query": bag} | {name: row[name] for name in values} for bag, row in found]
    output.result = {"method": method.card.name, "matches": matches}
    rows = [[f"{x:.3f}" if isinstance(x, float) else x for x in row.values()] for row in matches]
    output.table(["query", *values], rows, left=(0, 1))
    output.add_file(write_report(summary, to), count(len(matches), "match", "matches"))

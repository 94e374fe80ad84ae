"""Plotly figures as JSON; plotly is imported when the first figure is asked for, not before."""

from __future__ import annotations

from collections.abc import Sequence

from app.presenters.format import count, duration


def bin_labels(bounds: Sequence[float], unit: str) -> list[str]:
    """A label for each upper bound of a histogram; the last bin is open."""
    labels = []
    for bound in bounds:
        if bound == float("inf"):
            labels.append("more")
        elif unit == "us":
            labels.append(f"≤ {duration(int(bound))}")
        else:
            labels.append(f"≤ {count(int(bound))}")
    return labels


def trimmed(bins: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """The bins from the first that holds something to the last, with one empty on either side."""
    filled = [index for index, (_, number) in enumerate(bins) if number]
    if not filled:
        return []
    return list(bins[max(0, filled[0] - 1) : filled[-1] + 2])


def quantile(bins: Sequence[tuple[float, int]], part: float) -> float | None:
    """Upper bound of the bin that holds the quantile; None where nothing was counted."""
    total = sum(number for _, number in bins)
    seen = 0
    for bound, number in bins:
        seen += number
        if total and seen >= part * total:
            return bound
    return None


def histogram(bins: Sequence[tuple[float, int]], unit: str, what: str, across: str) -> str:
    """A bar chart of a histogram, as the JSON of a figure."""
    import plotly.graph_objects as go  # type: ignore[import-untyped]  # noqa: PLC0415
    import plotly.io as pio  # type: ignore[import-untyped]  # noqa: PLC0415

    shown = trimmed(bins)
    figure = go.Figure(
        go.Bar(
            x=bin_labels([bound for bound, _ in shown], unit),
            y=[number for _, number in shown],
            marker={"line": {"width": 0}},
            hovertemplate="%{x}: %{y:,} " + what + "<extra></extra>",
        )
    )
    figure.update_layout(
        template="none",
        margin={"l": 44, "r": 8, "t": 6, "b": 40},
        bargap=0.15,
        xaxis={
            "title": {"text": across, "standoff": 10},
            "type": "category",
            "fixedrange": True,
            "automargin": True,
            "tickangle": -30 if len(shown) > 4 else 0,
        },
        yaxis={
            "title": {"text": what},
            "rangemode": "tozero",
            "fixedrange": True,
            "tickformat": ",d",
            "nticks": 6,
            **({"dtick": 1} if max((number for _, number in shown), default=0) <= 5 else {}),
        },
        showlegend=False,
    )
    text = pio.to_json(figure, engine="orjson")
    assert isinstance(text, str)
    return text

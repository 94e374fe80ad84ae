"""Every state of a LangGraph thread on SQLite. usage: FOLDER STEPS RUNS"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from pathlib import Path
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph


class State(TypedDict):
    """One kilobyte that every step replaces."""

    number: int
    text: str


def main() -> None:
    """Run the steps, then walk the whole history."""
    folder, steps, runs = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    saver = SqliteSaver(sqlite3.connect(folder / "g.db", check_same_thread=False))
    saver.setup()

    def step(state: State) -> State:
        return {"number": state["number"] + 1, "text": f"{state['number']} " + "x" * 1000}

    graph = StateGraph(State)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda s: "step" if s["number"] < steps else "__end__")
    compiled = graph.compile(checkpointer=saver)
    thread = {"configurable": {"thread_id": "t"}, "recursion_limit": steps + 10}
    compiled.invoke({"number": 0, "text": ""}, thread)
    taken = []
    for _ in range(runs):
        began = time.perf_counter()
        count = sum(1 for _ in compiled.get_state_history(thread))
        taken.append((time.perf_counter() - began) * 1e3)
        assert count >= steps
    print(
        json.dumps(
            {
                "peer": f"langgraph get_state_history, {steps} checkpoints",
                "unit": "ms",
                "runs": taken,
            }
        )
    )


main()

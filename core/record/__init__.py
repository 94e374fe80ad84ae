"""The record: the control state at a boundary, folded from the log by a pure reducer."""

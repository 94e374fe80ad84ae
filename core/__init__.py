"""The pure core: events, the record folded from them, and the rules that decide. No I/O."""

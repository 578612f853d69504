"""Our numbers beside others': simulation, published tables, cycle-accurate peers, measurements."""

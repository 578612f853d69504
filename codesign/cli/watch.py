"""To come."""
COMMANDS: list = []

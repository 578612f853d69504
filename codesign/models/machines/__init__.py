"""What runs operators: from the numbers of a machine to seconds and joules."""

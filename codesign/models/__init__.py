"""Models of workloads, memories, machines, deployments and accounts. They know no search."""

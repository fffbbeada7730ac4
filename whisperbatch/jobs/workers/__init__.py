"""Workers: processes that share the tasks of a plan."""

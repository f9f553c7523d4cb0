"""What is doubtful in a suite though nothing in it is wrong: one file a family of rules, each pure."""

"""Workspaces: the folders in which agents work, with their hooks and repositories."""

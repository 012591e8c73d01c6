"""The commands: what a person types. One file a command; `main` puts them together."""

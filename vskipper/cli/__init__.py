"""The command line, one file a command. Nothing here imports torch until a command needs it."""

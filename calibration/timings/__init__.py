"""Times this machine and fits a hardware profile to it."""

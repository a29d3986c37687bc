"""What a run folder holds: its files, who writes and reads them, and who may."""

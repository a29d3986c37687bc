"""Answers to users: predictions, verdicts, sweeps, recommendations, schedules, exports."""

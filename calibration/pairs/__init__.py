"""Makes pair files: real models measured, engines' records analysed."""

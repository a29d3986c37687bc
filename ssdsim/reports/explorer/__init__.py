"""The page of ``ssdsim explore``: its data, its controls, and the JavaScript that follows them."""

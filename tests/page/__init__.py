"""The page that shows a cluster: its views, its forms, and who may use it."""

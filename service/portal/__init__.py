"""The page, the embedded view and the badge: estimates for people, as HTML and SVG."""

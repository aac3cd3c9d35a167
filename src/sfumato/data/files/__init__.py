"""Files in and out, one module per format; a refusal names the place, never the value."""

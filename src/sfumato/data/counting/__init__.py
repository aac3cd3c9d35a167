"""The waist: what methods see of rows, counts of combinations, bounded by person."""

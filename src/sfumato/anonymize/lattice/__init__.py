"""The lattice of full-domain generalizations: one level for each quasi-identifier."""

"""Other people's programs on blocks of people: only a private aggregate leaves."""

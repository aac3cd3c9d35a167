"""Other people's programs on blocks of people: only a private aggregate of what they give leaves."""

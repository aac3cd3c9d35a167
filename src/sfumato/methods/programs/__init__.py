"""Run programs of analysts on blocks of people, and release only a private aggregate."""

"""The pages of analysts: what is declared, questions, answers, jobs and releases."""

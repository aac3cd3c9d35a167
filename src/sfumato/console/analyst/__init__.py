"""The pages of who asks: what is declared, questions, answers, jobs and releases."""

"""Findings for people: charts, HTML pages, text."""

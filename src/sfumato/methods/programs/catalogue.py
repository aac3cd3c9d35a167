"""The options of programs with their help texts, importable without loading anything else."""

from __future__ import annotations

LANGUAGES = {
    "python": "anything; what others than the owner send needs the owner's approval",
    "starlark": "strict: reads like Python, has no clock, files or imports; needs no approval",
}
HOW = {
    "mean": "the mean of what the blocks gave, each within its range",
    "median": "the middle one of what the blocks gave: no wild block moves it far",
}
RANGES = {
    "tight": "as declared",
    "loose": "the middle half of what the blocks gave, found for half of the price",
    "helper": "what a function of the program makes of quartiles of columns, for half of the price",
}

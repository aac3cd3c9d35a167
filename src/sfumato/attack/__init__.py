"""Attacks on releases, one module each: how often an attacker is right, and how often a guess."""

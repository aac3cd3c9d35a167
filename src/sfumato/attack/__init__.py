"""Attacks on releases, one module each: how often is an attacker right, and how often a guess?"""

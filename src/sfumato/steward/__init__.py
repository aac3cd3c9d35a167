"""What an owner does with a table without a budget: read, inspect, anonymize, measure, bound."""

"""Sets of items: baskets, ratings, search logs. What one person has, bought, rated or asked for."""

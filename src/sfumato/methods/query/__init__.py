"""SQL in, private answer out. The stages of a question:

text -- sql.parse ------------> one SELECT; or built by hand: builder
     -- sql.rewrite ----------> fewer forms: no WITH, no subquery outside FROM and JOIN
     -- sql.blocks, .joins ---> relations in which every row has one person (sql.tables, .caps)
     -- plan.planner ---------> a Plan: `source`, keys, measures, levels, `finish`; nothing read
     -- plan.allocation ------> a mechanism for every statistic, within the price: an event
the ledger takes the charge; only its receipt gives entropy; only now is data read
     -- answer.engine_queries > bounded aggregates, by GROUP BY where the data lives
     -- answer.exact ---------> whole numbers by group: still private
     -- answer.noisy ---------> the one step to the public: exact noise, then least squares
     -- answer.figures -------> the measures that were asked for, each with its error
     -- answer.question ------> HAVING, ORDER BY, arithmetic (`finish`) over them: a Release
     -- answer.bars, .spans --> how far off each column may be, and what is too noisy to use
"""

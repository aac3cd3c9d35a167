"""Queries: SQL in, private answer out. The stages of a question:

text -- sql.parse -----------------> one SELECT; or built by hand: builder
     -- sql.rewrite ---------------> fewer forms: no WITH, no subquery outside FROM and JOIN
     -- sql.select_blocks, .joins -> relations in which every row has one person
                                     (sql.tables, sql.work_limits)
     -- plan.planner --------------> a Plan: `source`, keys, measures, levels, `finish`; no row read
     -- plan.allocation -----------> a mechanism for every statistic, within the price: an event
the ledger takes the charge; only its receipt gives entropy; only now is data read
     -- answer.engine_queries -----> bounded aggregates, by GROUP BY where the data lives
     -- answer.exact_aggregates ---> integers by group: still private
     -- answer.noisy_aggregates ---> the single step to public figures: exact noise, least squares
     -- answer.figures ------------> the measures, each with its error
     -- answer.question -----------> HAVING, ORDER BY, arithmetic (`finish`) over them: a Release
     -- answer.error_bars ---------> the error of each column, and figures too noisy to use
                                     (answer.intervals)
"""

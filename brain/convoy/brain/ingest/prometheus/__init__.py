"""Load of machines and of jobs' pods, asked of Prometheus and stored: ``convoy brain collect``.

    queries     what is asked: queries.toml, and a user's file over it                       (pure)
    grid        when it is asked: moments of a grid, so that asking again gives the same rows (pure)
    subjects    whose a series is: a machine by its name, a pod by namespace and name         (pure)
    rows        samples to rows; what can't be stored is counted                              (pure)
    findings    what is missing, and what of it is said when                                  (pure)
    client      the HTTP API: deadlines, sizes, refusals in our own words
    address     where Prometheus is and what it is shown there
    load_store  machines, pods' jobs and rows in the store
    collect     a span of time in chunks
    watch       for ever: outages are waited out and their gap is filled

Where counters step back, samples are missing or grow old, and windows are covered in part, is the queries' business:
see the head of queries.toml.
"""

"""The monitor: a cluster's jobs, plans, pods, machines and events in the store, as they are and while they change.

Read from top to bottom; what is marked so is pure.

    parts, accelerators                   reading a manifest that may hold anything       (pure)
    job, plan, pod, node, event           a kind's manifest as a row                      (pure)
    told                                  what one change of the cluster says             (pure)
    merge                                 a row that is stored and one that is told       (pure)
    pending, waiting, tally               what is still to be stored, and what was
    store, bring, subjects, place, known  one transaction's work on the tables
    writer, follower, monitor             the threads around it
    permissions, process                  the command
"""

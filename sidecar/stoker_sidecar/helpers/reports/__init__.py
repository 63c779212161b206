"""The report listener: a process that receives pods' training reports, each over a separate socket."""

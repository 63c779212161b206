"""The operator: decides which node holds which dataset, and where and when pods start."""

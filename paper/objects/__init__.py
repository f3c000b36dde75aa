"""Do learned crops find the object? ``python -m paper.objects RUN`` answers for any run."""

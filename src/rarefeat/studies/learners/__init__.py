"""Which learners lock a rare feature out? Losses, encoders and optimisers on one data law."""
